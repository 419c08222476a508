internal import KakaoAPI
internal import Logging
internal import ServiceKit

/// The credentials that a server accepts. Shared by all event loops.
struct ServerIdentity: Sendable {
    let users: UserCredentials
    let operators = OperatorKeys()
    private let limits: DeviceRequestLimits
    private let monitoring = MonitoringAccess()

    /// - Throws: ``SettingsError`` for an unusable file of keys.
    init(_ settings: Settings, logger: Logger) throws {
        users = try UserCredentials(settings, logger: logger)
        limits = DeviceRequestLimits(
            perUser: settings.devices.requestsPerMinutePerUser,
            perAddress: settings.devices.requestsPerMinutePerAddress,
            logger: logger
        )
    }

    /// Returns the authenticator of a loop.
    func authenticator(_ loop: LoopServices, _ settings: Settings) -> Authenticator {
        Authenticator(
            operatorKey: settings.operatorKey,
            adminKey: settings.kakao.adminKey,
            feedbackSecret: settings.callbacks.feedbackSecret,
            operators: operators,
            keys: OperatorKeyStore(pool: loop.pool),
            users: users,
            limits: limits,
            monitoring: monitoring,
            kakao: loop.kakao(.requests),
            client: loop.client
        )
    }
}
