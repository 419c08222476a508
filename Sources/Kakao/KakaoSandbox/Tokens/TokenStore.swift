import Crypto
import KakaoAPI
import Locking

/// The authorization codes and tokens of Kakao Login that the sandbox has issued, and what became of them.
final class TokenStore: Sendable {
    /// The maximum number of access tokens, of refresh tokens, of codes and of users. No more are stored.
    static let maximumTokens = 1_000_000
    /// The lifetime of a code, in milliseconds.
    private static let codeLifetime: Int64 = 10 * 60 * 1000
    /// The number of uses of superseded refresh tokens that are kept, the newest.
    fileprivate static let maximumReuses = 10_000

    /// The user and app of an access token, and when it expires.
    struct Grant: Sendable {
        let userID: Int64
        let appID: Int64
        /// The time of expiry in Unix milliseconds.
        let expiresAt: Int64

        var hasExpired: Bool { expiresAt <= WallClock.unixMilliseconds }
    }

    /// A user's login to an app, from which tokens follow.
    struct Login: Sendable {
        let userID: Int64
        let appID: Int64
        /// The app key that the user logged in with.
        let clientID: String
        /// The ids of the scopes that the user has agreed to.
        let scopes: [String]
        /// The lifetimes of the tokens in seconds.
        let accessTokenSeconds: Int64
        let refreshTokenSeconds: Int64
    }

    /// An authorization, which a code stands for.
    struct Authorization: Sendable {
        let login: Login
        let redirectURI: String
        /// The `code_challenge` of the method S256, if there was one.
        let challenge: String?
        let nonce: String?
    }

    /// Issued tokens.
    struct Tokens: Sendable {
        let login: Login
        let accessToken: String
        /// `nil` if the refresh token of the request remains valid.
        let refreshToken: String?
    }

    /// A refresh token, which stays stored after its end to recognize its use.
    fileprivate struct RefreshToken {
        let login: Login
        /// The time of expiry in Unix milliseconds.
        let expiresAt: Int64
        var state = State.valid

        enum State {
            case valid
            /// Another token was issued in its place. Its use is refused.
            case superseded(isDelivered: Bool)
        }

        var isValid: Bool {
            if case .valid = state { expiresAt > WallClock.unixMilliseconds } else { false }
        }
    }

    fileprivate struct User {
        var hasLoggedIn = false
        /// The error in which the next authorization ends.
        var nextError: String?
        /// The times at which tokens were issued by the token endpoint, and at which they were refreshed, in Unix
        /// milliseconds, as far back as the limits reach.
        var issues: [Int64] = []
        var refreshes: [Int64] = []
        var report = TokenReport()
    }

    fileprivate struct State {
        var codes: [String: (authorization: Authorization, expiresAt: Int64)] = [:]
        var grants: [String: Grant] = [:]
        var refreshTokens: [String: RefreshToken] = [:]
        var users: [Int64: User] = [:]
        /// The requests whose user is unknown.
        var others = TokenReport()
        var reuses: [TokenReuse] = []

        mutating func report<Result>(of userID: Int64?, _ change: (inout TokenReport) -> Result) -> Result {
            guard let userID else { return change(&others) }
            return change(&users[userID, default: User()].report)
        }
    }

    private let settings: KakaoSandboxSettings
    private let state = Locked(State())

    init(settings: KakaoSandboxSettings) {
        self.settings = settings
    }

    // MARK: Logins

    /// Returns whether a user has logged in before.
    func hasLoggedIn(_ userID: Int64) -> Bool {
        state.withLock { $0.users[userID]?.hasLoggedIn ?? false }
    }

    /// Makes the next authorization of a user end in an error. Returns `false` if ``maximumTokens`` users are stored.
    func failNextAuthorization(of userID: Int64, with error: String) -> Bool {
        state.withLock { state in
            guard state.hasRoom(for: userID) else { return false }
            state.users[userID, default: User()].nextError = error
            return true
        }
    }

    /// Returns the error in which the authorization of a user has to end, once.
    func consumeNextError(of userID: Int64) -> String? {
        state.withLock { $0.users[userID]?.nextError.take() }
    }

    /// Issues a code. Returns `nil` if ``maximumTokens`` are stored.
    func issueCode(for authorization: Authorization) -> String? {
        state.withLock { state in
            let now = WallClock.unixMilliseconds
            let userID = authorization.login.userID
            guard state.hasRoom(for: userID), Self.makeRoom(in: &state.codes, where: { $0.expiresAt > now }) else {
                return nil
            }
            let code = Self.newToken()
            state.codes[code] = (authorization, now + Self.codeLifetime)
            state.users[userID, default: User()].hasLoggedIn = true
            return code
        }
    }

    /// Issues both tokens of a login without a code. Returns `nil` if ``maximumTokens`` are stored.
    func issueTokens(for login: Login) -> Tokens? {
        state.withLock { state in
            guard state.hasRoom(for: login.userID) else { return nil }
            state.users[login.userID, default: User()].hasLoggedIn = true
            return state.issue(login, withRefreshToken: true)
        }
    }

    /// Issues an access token only. Returns `nil` if ``maximumTokens`` are stored.
    func issue(_ grant: Grant) -> String? {
        state.withLock { $0.issue(grant) }
    }

    // MARK: Access tokens

    /// Returns the grant of an access token, which may have expired, or `nil` if the token is unknown.
    func grant(of token: String) -> Grant? {
        state.withLock { $0.grants[token] }
    }

    /// Revokes an access token, as a logout with this token does.
    func revoke(_ token: String) {
        state.withLock { $0.grants[token] = nil }
    }

    /// Revokes all codes and tokens of a user, as a logout on all devices does.
    func revoke(userID: Int64) {
        state.withLock { state in
            state.codes = state.codes.filter { $0.value.authorization.login.userID != userID }
            state.grants = state.grants.filter { $0.value.userID != userID }
            state.refreshTokens = state.refreshTokens.filter { $0.value.login.userID != userID }
        }
    }

    // MARK: The token endpoint

    /// Exchanges a code for tokens.
    ///
    /// - Returns: The tokens, and the nonce for the ID token.
    func redeem(
        _ code: String,
        clientID: String,
        redirectURI: String?,
        verifier: String?
    ) throws(KakaoRefusal) -> (tokens: Tokens, nonce: String?) {
        try state.withLock { state throws(KakaoRefusal) in
            let now = WallClock.unixMilliseconds
            guard let (authorization, expiresAt) = state.codes[code], expiresAt > now,
                authorization.login.clientID == clientID
            else { throw .invalidCode(code) }
            guard redirectURI == authorization.redirectURI else {
                throw .oauth("invalid_grant", "KOE303", "Redirect URI mismatch.")
            }
            if let challenge = authorization.challenge {
                let digest = Base64URL.encode(SHA256Digest.of(verifier ?? ""))
                guard digest == challenge else { throw .invalidCode(code) }
            }
            let userID = authorization.login.userID
            try admit(&state.users[userID, default: User()], isRefresh: false, now)
            guard let tokens = state.issue(authorization.login, withRefreshToken: true) else { throw .full }
            state.codes[code] = nil
            state.users[userID]?.report.logins += 1
            return (tokens, authorization.nonce)
        }
    }

    /// Refreshes an access token. Supersedes the refresh token if too little of its lifetime is left.
    func refresh(_ token: String, clientID: String) throws(KakaoRefusal) -> Tokens {
        try state.withLock { state throws(KakaoRefusal) in
            let now = WallClock.unixMilliseconds
            guard let refreshToken = state.refreshTokens[token], refreshToken.isValid,
                refreshToken.login.clientID == clientID
            else { throw .invalidRefreshToken }
            let login = refreshToken.login
            try admit(&state.users[login.userID, default: User()], isRefresh: true, now)
            let isRotated = (refreshToken.expiresAt - now) / 1000 < settings.rotateRefreshTokensBelowSeconds
            guard let tokens = state.issue(login, withRefreshToken: isRotated) else { throw .full }
            state.users[login.userID]?.report.refreshes += 1
            if isRotated {
                state.refreshTokens[token]?.state = .superseded(isDelivered: false)
                state.users[login.userID]?.report.rotations += 1
            }
            return tokens
        }
    }

    /// Applies the limits of a user (KOE237), and counts the tokens that are issued next.
    private func admit(_ user: inout User, isRefresh: Bool, _ now: Int64) throws(KakaoRefusal) {
        func hasRoom(_ times: inout [Int64], _ limit: TokenLimit?) -> Bool {
            guard let limit else { return true }
            times.removeAll { $0 <= now - limit.seconds * 1000 }
            return times.count < limit.count
        }
        let isAdmitted =
            hasRoom(&user.issues, settings.tokenLimit)
            && (!isRefresh || hasRoom(&user.refreshes, settings.refreshLimit))
        guard isAdmitted else { throw .oauth("", "KOE237", "the limit of token requests has been exceeded.") }
        if settings.tokenLimit != nil { user.issues.append(now) }
        if isRefresh, settings.refreshLimit != nil { user.refreshes.append(now) }
    }

    // MARK: The report

    /// Records the arrival of a request to the token endpoint.
    ///
    /// - Returns: The user of the code or the refresh token; `nil` if it is unknown.
    func recordArrival(of call: RequestToken) -> Int64? {
        state.withLock { state in
            switch call.grantType {
            case .authorizationCode:
                return state.codes[call.code?.revealed ?? ""]?.authorization.login.userID
            case .refreshToken:
                let token = call.refreshToken?.revealed ?? ""
                guard let refreshToken = state.refreshTokens[token] else { return nil }
                let userID = refreshToken.login.userID
                state.report(of: userID) { report in
                    report.inFlight += 1
                    report.maximumInFlight = max(report.maximumInFlight, report.inFlight)
                }
                if case .superseded(let isDelivered) = refreshToken.state {
                    state.add(
                        TokenReuse(
                            userID: userID,
                            tokenSHA256: SHA256Digest.of(token),
                            unixMilliseconds: WallClock.unixMilliseconds,
                            isAfterDelivery: isDelivered
                        )
                    )
                }
                return userID
            }
        }
    }

    /// Records the end of a request: its response was handed to the connection, or the connection is gone.
    ///
    /// - Parameters:
    ///   - userID: The result of ``recordArrival(of:)``.
    ///   - isRotated: Whether the request superseded its refresh token.
    ///   - isDelivered: Whether its own response, and not that of a fault, was handed to an open connection.
    func recordEnd(of call: RequestToken, userID: Int64?, isRotated: Bool, isDelivered: Bool) {
        guard let userID, call.grantType == .refreshToken else { return }
        state.withLock { state in
            state.report(of: userID) { report in
                report.inFlight -= 1
                if isRotated, !isDelivered { report.lostRotations += 1 }
            }
            guard isRotated, let token = call.refreshToken?.revealed else { return }
            // The token may have been revoked meanwhile.
            state.refreshTokens[token]?.state = .superseded(isDelivered: isDelivered)
        }
    }

    /// Records a refusal by its KOE code.
    func recordRefusal(_ code: String, of userID: Int64?) {
        state.withLock { state in state.report(of: userID) { $0.refusals[code, default: 0] += 1 } }
    }

    /// Returns the counts of a user, or those of all users together.
    func report(of userID: Int64?) -> TokenReport {
        state.withLock { state in
            guard let userID else { return state.users.values.reduce(state.others) { $0 + $1.report } }
            return state.users[userID]?.report ?? TokenReport()
        }
    }

    /// Returns the uses of superseded refresh tokens by a user or by all users, the oldest first; at most
    /// ``maximumReuses`` of all users are kept.
    func reuses(of userID: Int64?) -> [TokenReuse] {
        state.withLock { state in state.reuses.filter { userID == nil || $0.userID == userID } }
    }

    // MARK: Storage

    fileprivate static func newToken() -> String {
        RandomKey.hexadecimal(words: 3)
    }

    /// Makes room for another value by removing the dead ones. Returns whether there is room.
    fileprivate static func makeRoom<Value>(
        in values: inout [String: Value],
        where isAlive: (Value) -> Bool
    ) -> Bool {
        if values.count >= maximumTokens { values = values.filter { isAlive($0.value) } }
        return values.count < maximumTokens
    }
}

extension TokenStore.State {
    /// Returns whether something can be stored about a user.
    func hasRoom(for userID: Int64) -> Bool {
        users[userID] != nil || users.count < TokenStore.maximumTokens
    }

    mutating func issue(_ grant: TokenStore.Grant) -> String? {
        let now = WallClock.unixMilliseconds
        guard TokenStore.makeRoom(in: &grants, where: { $0.expiresAt > now }) else { return nil }
        let token = TokenStore.newToken()
        grants[token] = grant
        return token
    }

    mutating func issue(_ login: TokenStore.Login, withRefreshToken: Bool) -> TokenStore.Tokens? {
        let now = WallClock.unixMilliseconds
        var refreshToken: String?
        if withRefreshToken {
            // Superseded tokens only serve the report.
            guard TokenStore.makeRoom(in: &refreshTokens, where: \.isValid) else { return nil }
            refreshToken = TokenStore.newToken()
        }
        let grant = TokenStore.Grant(
            userID: login.userID,
            appID: login.appID,
            expiresAt: now + login.accessTokenSeconds * 1000
        )
        guard let accessToken = issue(grant) else { return nil }
        if let refreshToken {
            let expiresAt = now + login.refreshTokenSeconds * 1000
            refreshTokens[refreshToken] = TokenStore.RefreshToken(login: login, expiresAt: expiresAt)
        }
        return TokenStore.Tokens(login: login, accessToken: accessToken, refreshToken: refreshToken)
    }

    /// Records the use of a superseded refresh token.
    mutating func add(_ reuse: TokenReuse) {
        report(of: reuse.userID) { report in
            if reuse.isAfterDelivery { report.reusesAfterDelivery += 1 } else { report.reusesBeforeDelivery += 1 }
        }
        if reuses.count >= TokenStore.maximumReuses { reuses.removeFirst() }
        reuses.append(reuse)
    }
}

extension KakaoRefusal {
    fileprivate static func invalidCode(_ code: String) -> KakaoRefusal {
        // The text contains the code, as Kakao's does.
        .oauth("invalid_grant", "KOE320", "authorization code not found for code=\(code)")
    }

    fileprivate static let invalidRefreshToken = KakaoRefusal.oauth(
        "invalid_grant",
        "KOE322",
        "expired_or_invalid_refresh_token"
    )

    fileprivate static let full = KakaoRefusal.oauth(
        status: 500,
        "server_error",
        "KOE003",
        "\(TokenStore.maximumTokens) tokens are stored already."
    )
}
