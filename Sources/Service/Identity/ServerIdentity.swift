package import Endpoints
package import EventLoop
import HTTPServer
import KakaoAPI
package import Logging
package import Runtime
package import Settings

/// The credentials that a server accepts. Shared by all event loops.
package struct ServerIdentity: Sendable {
    package let users: UserCredentials
    private let operators = OperatorKeys()
    private let limits: UserRequestLimits
    private let appKeyLimits: AppKeyLimits
    private let monitoring = MonitoringAccess()
    private let secrets: LoopValue<AcceptedSecrets>
    private let trustedAddresses: TrustedProxies
    private let explainsRejections: Bool
    /// Whether user ids are Kakao's.
    package let hasKakaoUserIDs: Bool

    /// - Throws: ``SettingsError`` for an unusable file of keys.
    package init(_ settings: IdentitySettings, _ kakao: KakaoSettings, loops: [EventLoop], logger: Logger) throws {
        hasKakaoUserIDs = settings.userIDs == .kakao
        trustedAddresses = settings.trustedAddresses
        explainsRejections = settings.explainsRejections
        secrets = LoopValue(AcceptedSecrets(settings, kakao), loops: loops)
        users = try UserCredentials(settings, kakao, logger: logger)
        limits = UserRequestLimits(
            perUser: settings.requestsPerMinutePerUser,
            perAddress: settings.requestsPerMinutePerAddress,
            logger: logger
        )
        appKeyLimits = AppKeyLimits(
            perDay: kakao.appKeyCallsPerDayPerNetwork,
            perMinute: kakao.appKeyCallsPerMinute
        )
    }

    /// The verifier of Kakao's tokens for the app's keys; `nil` without such a key.
    package var kakaoTokens: TokenVerifier? { users.kakao }

    /// Applies the secrets and the limits of reloaded settings. Afterwards no old secret is accepted.
    package func apply(_ settings: IdentitySettings, _ kakao: KakaoSettings) async {
        await secrets.replace(by: AcceptedSecrets(settings, kakao))
        limits.apply(perUser: settings.requestsPerMinutePerUser, perAddress: settings.requestsPerMinutePerAddress)
        appKeyLimits.apply(perDay: kakao.appKeyCallsPerDayPerNetwork, perMinute: kakao.appKeyCallsPerMinute)
    }

    /// Returns the authenticator of a loop.
    ///
    /// - Parameter admitsOperators: Whether operator keys are accepted: not at the public port beside a port for
    ///   operators.
    package func authenticator(_ loop: LoopServices, admitsOperators: Bool = true) -> any Authorizer {
        Authenticator(
            secrets: secrets.on(loop.loop),
            operators: operators,
            keys: OperatorKeyStore(pool: loop.pool),
            users: users,
            limits: limits,
            appKeyLimits: appKeyLimits,
            monitoring: monitoring,
            kakao: loop.kakao(.tokens),
            client: loop.client,
            admitsOperators: admitsOperators,
            trustedAddresses: trustedAddresses,
            explainsRejections: explainsRejections
        )
    }

    /// Returns what signs operators in to the page, on a loop.
    package func signIn(_ loop: LoopServices) -> SignIn {
        SignIn(
            secrets.on(loop.loop),
            operators,
            OperatorKeyStore(pool: loop.pool),
            explainsRejections: explainsRejections
        )
    }

    /// Returns the worker that writes the times when operator keys were last used.
    package func keyUseWriter(_ loop: LoopServices, logger: Logger) -> BackgroundWorker {
        operators.useWriter(OperatorKeyStore(pool: loop.pool), on: loop.loop, logger: logger)
    }
}
