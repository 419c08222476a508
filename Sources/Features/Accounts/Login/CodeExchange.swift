import Endpoints
import EventLoop
import FoundationEssentials
import HTTPClient
import HTTPServer
import Identity
import JSON
import KakaoAPI
import Locking
import Logging
import Postgres
import Runtime
import Schemas

/// The exchange of authorization codes for tokens, which are stored in accounts.
struct CodeExchange: Sendable {
    /// An authorization code and what it was requested with.
    struct Code: Sendable {
        let text: String
        let redirectURI: String
        let codeVerifier: String?
        /// The nonce that the ID token must have; `nil` if none was requested.
        let nonce: String?
        /// Whether a login without an ID token is rejected.
        let needsIDToken: Bool
        let appKey: AppKeyKind
        /// The user that must have logged in; `nil` for any user.
        let userID: Int64?
    }

    /// The reason why a code leads to no account.
    enum Failure: Error, CustomStringConvertible {
        /// The settings lack the app key.
        case appKeyMissing
        case kakao(KakaoError)
        /// The ID token is not Kakao's, or not of this login.
        case invalidIDToken
        /// Another user than ``Code/userID`` has logged in.
        case wrongAccount

        var description: String {
            switch self {
            case .appKeyMissing: "the app key is not set"
            case .kakao(let error): error.description
            case .invalidIDToken: "the ID token is not Kakao's, or not of this login"
            case .wrongAccount: "another user has logged in"
            }
        }
    }

    /// The number of attempts to read the user of new tokens.
    private static let maximumUserReadAttempts = 3
    private static let retryDelay = RetryDelay(first: .milliseconds(200), longest: .seconds(1))
    /// The number of attempts to store new tokens, since Kakao accepts a code only once: for about ten seconds.
    private static let storeAttempts = 8
    private static let storeDelay = RetryDelay(first: .milliseconds(100), longest: .seconds(3))

    let store: AccountStore
    let vault: TokenVault
    let kakao: KakaoClient
    let client: HTTPClient
    let app: LoginApp
    /// Verifies ID tokens; `nil` without an app key.
    let idTokens: TokenVerifier?
    let loop: EventLoop
    let logger: Logger

    /// Exchanges a code and stores the tokens.
    ///
    /// - Parameters:
    ///   - record: Returns the record for the audit log, given the user.
    ///   - statement: Returns the statement that stores the result, given as JSON, with the tokens.
    /// - Returns: The result as JSON.
    /// - Throws: ``Failure``, ``PostgresError``, ``UndecidedKey`` of an ID token.
    func logIn(
        with code: Code,
        recording record: @Sendable (Int64) -> AuditRecord? = { _ in nil },
        storing statement: @Sendable ([UInt8]) -> StoreLoginResult
    ) async throws -> [UInt8] {
        guard let client = app.client(code.appKey) else { throw Failure.appKeyMissing }
        let start = MonotonicTime.now
        let answer: RequestToken.Answer
        do throws(KakaoError) {
            answer = try await kakao.call(
                RequestToken.exchanging(
                    code: code.text,
                    redirectURI: code.redirectURI,
                    codeVerifier: code.codeVerifier,
                    for: client
                ),
                as: .none
            )
        } catch {
            throw Failure.kakao(error)
        }
        let idToken = try await verified(answer.idToken, code)
        let userID = try await userID(of: answer.accessToken, idToken?.userID)
        guard userID == idToken?.userID ?? userID else { throw Failure.invalidIDToken }
        guard userID == code.userID ?? userID else { throw Failure.wrongAccount }
        let issued = IssuedTokens(answer, keeping: nil, since: start)
        let login = Login(
            userID: userID,
            appKey: code.appKey,
            refreshedBy: .server,
            issued: issued,
            isVerified: true
        )
        // The response to a commit may be lost, after which the account is no longer new.
        let wasNew = Locked(false)
        return try await Self.storeDelay.retrying(
            atMost: Self.storeAttempts,
            on: loop,
            attempt: { try await storeLogin(login, idToken?.claims, wasNew, record(userID), statement) },
            while: { (error: PostgresError) in
                logger.warning("New tokens not stored", metadata: ["user_id": "\(userID)", "error": "\(error)"])
                return error.isOutage
            }
        )
    }

    /// Stores the tokens and the result together.
    private func storeLogin(
        _ login: Login,
        _ idToken: JSONObject?,
        _ wasNew: Locked<Bool>,
        _ record: AuditRecord?,
        _ statement: @Sendable ([UInt8]) -> StoreLoginResult
    ) async throws -> [UInt8] {
        try await store.pool.withTransaction { transaction in
            let isStoredNew = try await AccountStore.store(login, vault, in: transaction)
            let isNew = wasNew.withLock { wasNew in
                wasNew = wasNew || isStoredNew
                return wasNew
            }
            let now = Date()
            let result = LoginResult(
                userID: login.userID,
                isNew: isNew,
                scopes: login.issued.scopes ?? [],
                idToken: idToken,
                accessTokenEndsAt: now + login.issued.accessTokenLifetime,
                refreshTokenEndsAt: login.issued.refreshTokenLifetime.map { now + $0 }
            )
            let json = LoginResult.shape.json(result)
            _ = try await transaction.query(statement(json)) as Int
            try await transaction.record(record)
            return json
        }
    }

    /// Returns the claims of an ID token and its user; `nil` without an ID token.
    private func verified(_ text: String?, _ code: Code) async throws -> (claims: JSONObject, userID: Int64)? {
        guard let text else {
            guard !code.needsIDToken else { throw Failure.invalidIDToken }
            return nil
        }
        guard let token = JSONWebToken(text, .credential), let idTokens,
            let userID = try await user(of: token, idTokens),
            code.nonce == nil || token.claims["nonce"]?.string == code.nonce
        else {
            throw Failure.invalidIDToken
        }
        return (token.claims, userID)
    }

    /// Returns the user of an ID token. A fetch of Kakao's keys that fails is retried, since the code cannot be used again.
    private func user(of token: JSONWebToken, _ verifier: TokenVerifier) async throws -> Int64? {
        try await Self.storeDelay.retrying(
            atMost: Self.storeAttempts,
            on: loop,
            attempt: { try await verifier.user(of: token, client, on: loop) },
            while: { (_: UndecidedKey) in true }
        )
    }

    /// Returns the user of new tokens.
    ///
    /// Kakao is called even if an ID token names the user: it may unlink users for whom the app makes no call after the login.
    ///
    /// - Parameter known: The user of the ID token, which suffices if Kakao is unavailable.
    private func userID(of accessToken: String, _ known: Int64?) async throws -> Int64 {
        do {
            return try await Self.retryDelay.retrying(
                atMost: Self.maximumUserReadAttempts,
                on: loop,
                attempt: { try await kakao.call(RetrieveUser(), as: .userToken(accessToken)).userID },
                while: { (error: KakaoError) in error.disposition == .retry || error.disposition == .unrecognized }
            )
        } catch let error as KakaoError {
            guard let known else { throw Failure.kakao(error) }
            return known
        }
    }
}
