import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Locking

/// The controls `/sandbox/login`, `/sandbox/authorizations`, `/sandbox/tokens` and `/sandbox/keys`, which log users in
/// without a browser, deny authorizations, show what became of tokens, and rotate Kakao's keys (`docs/sandbox.md`).
struct LoginControl: Sendable {
    let settings: KakaoSandboxSettings
    let users: AppUsers
    let tokens: TokenStore
    let signingKeys: SigningKeys
    /// The issuer of ID tokens, which is the sandbox's URL. It is known once the sandbox listens.
    let issuer = Locked("")

    func addRoutes(to router: inout Router) {
        router.on(.post, "/sandbox/login", login)
        router.command(.delete, "/sandbox/login/{user_id}") { tokens.revoke(userID: try $0.userID) }
        router.command(.post, "/sandbox/authorizations", failNextAuthorization)
        router.control(.get, "/sandbox/tokens", report)
        router.on(.post, "/sandbox/keys/rotate") { _ in
            try await signingKeys.rotate()
            return Response(.noContent)
        }
    }

    func accessToken(of userID: Int64, appID: Int64?, expiresInSeconds seconds: Int64) -> String? {
        let ownAppID = Int64(settings.appID)
        let appID = appID ?? ownAppID
        if appID == ownAppID { users.logIn(userID, consentingTo: []) }
        return tokens.issue(
            TokenStore.Grant(
                userID: userID,
                appID: appID,
                expiresAt: WallClock.unixMilliseconds + seconds * 1000
            )
        )
    }

    /// Logs a user in without a code.
    func logIn(
        _ userID: Int64,
        appID: Int64? = nil,
        appKey: String?,
        consentingTo scopes: [String],
        accessTokenSeconds: Int64?,
        refreshTokenSeconds: Int64?,
        idToken: String? = nil
    ) -> RequestToken.Answer? {
        let login = TokenStore.Login(
            userID: userID,
            appID: appID ?? Int64(settings.appID),
            clientID: appKey ?? settings.restAPIKey,
            scopes: users.logIn(userID, consentingTo: scopes),
            accessTokenSeconds: accessTokenSeconds ?? settings.accessTokenSeconds,
            refreshTokenSeconds: refreshTokenSeconds ?? settings.refreshTokenSeconds
        )
        return tokens.issueTokens(for: login).map { RequestToken.Answer($0, scopes: login.scopes, idToken: idToken) }
    }

    /// Returns the answer of the token endpoint, with an ID token if the user has agreed to the scope `openid`.
    func answer(
        _ issued: TokenStore.Tokens,
        scopes: [String]?,
        nonce: String?
    ) async throws -> RequestToken.Answer {
        let login = issued.login
        var idToken: String?
        if login.scopes.contains("openid") {
            idToken = try await self.idToken(
                of: login.userID,
                appKey: login.clientID,
                expiresInSeconds: login.accessTokenSeconds,
                claims: nonce.map { ["nonce": .string($0)] } ?? JSONObject()
            )
        }
        return RequestToken.Answer(issued, scopes: scopes, idToken: idToken)
    }

    /// Returns an ID token (OIDC) like Kakao's. `claims` are added to Kakao's claims, or replace them.
    func idToken(
        of userID: Int64,
        appKey: String,
        expiresInSeconds seconds: Int64,
        claims: JSONObject = JSONObject(),
        namesKey: Bool = true
    ) async throws -> String {
        let now = WallClock.unixMilliseconds / 1000
        var all: JSONObject = [
            "aud": .string(appKey), "sub": .string(String(userID)), "auth_time": .integer(now),
            "iss": .string(issuer.withLock { $0 }), "exp": .integer(now + seconds), "iat": .integer(now),
        ]
        for (name, value) in claims.members { all[name] = value }
        return try await signingKeys.current().sign(all, type: "JWT", namesKey: namesKey)
    }

    private func login(_ request: Request) async throws -> Response {
        let known: Set<String> = [
            "user_id", "app_id", "expires_in", "app_key", "refresh", "refresh_token_expires_in", "scope",
        ]
        let input = try ControlInput(bodyOf: request, known: known)
        let userID = try Self.userID(input)
        let appID = try input.integer("app_id", in: 1...Int64.max)
        let seconds = try input.integer("expires_in", in: 0...86_400) ?? settings.accessTokenSeconds
        let appKey = try input.string("app_key")
        var idToken: String?
        if let appKey { idToken = try await self.idToken(of: userID, appKey: appKey, expiresInSeconds: seconds) }
        let answer: RequestToken.Answer?
        if try input.bool("refresh") ?? false {
            answer = logIn(
                userID,
                appID: appID,
                appKey: appKey,
                consentingTo: (try input.string("scope") ?? "").split(separator: " ").map(String.init),
                accessTokenSeconds: seconds,
                refreshTokenSeconds: try input.integer("refresh_token_expires_in", in: 0...Int64(Int32.max)),
                idToken: idToken
            )
        } else {
            answer = accessToken(of: userID, appID: appID, expiresInSeconds: seconds).map {
                RequestToken.Answer(accessToken: $0, expiresInSeconds: seconds, idToken: idToken)
            }
        }
        guard let answer else {
            throw Problem(
                .conflict,
                "\(TokenStore.maximumTokens) tokens are stored already. Revoke some with DELETE /sandbox/login/{user_id}."
            )
        }
        return .json(RequestToken.operation.answer.encode(answer))
    }

    private func failNextAuthorization(_ request: Request) throws {
        let input = try ControlInput(bodyOf: request, known: ["user_id", "error"])
        let error = try input.string("error") ?? "access_denied"
        guard tokens.failNextAuthorization(of: try Self.userID(input), with: error) else {
            throw Problem(.conflict, "\(TokenStore.maximumTokens) users are stored already.")
        }
    }

    private func report(_ request: Request) throws -> Response {
        let query = try ControlInput(queryOf: request, known: ["user_id"])
        let userID = try query.integer("user_id", in: 1...Int64.max)
        return .json {
            tokens.report(of: userID).writeMembers(to: &$0)
            $0.member("reuses", tokens.reuses(of: userID))
        }
    }

    private static func userID(_ input: ControlInput) throws(Problem) -> Int64 {
        guard let userID = try input.integer("user_id", in: 1...Int64.max) else {
            throw ControlInput.problem("user_id", "is required", allowed: "1 to \(Int64.max)")
        }
        return userID
    }
}

extension RequestToken.Answer {
    fileprivate init(_ tokens: TokenStore.Tokens, scopes: [String]?, idToken: String?) {
        self.init(
            accessToken: tokens.accessToken,
            expiresInSeconds: tokens.login.accessTokenSeconds,
            refreshToken: tokens.refreshToken,
            refreshTokenExpiresInSeconds: tokens.refreshToken.map { _ in tokens.login.refreshTokenSeconds },
            scopes: scopes,
            idToken: idToken
        )
    }
}
