internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import Locking

/// `/sandbox/login` and `/sandbox/keys`: logs users in without a browser, and has Kakao change its keys (`docs/sandbox.md`).
struct LoginControl: Sendable {
    let settings: KakaoSandboxSettings
    let accessTokens: AccessTokens
    let signingKeys: SigningKeys
    /// Of ID tokens: where the sandbox is reached, which is known once it listens.
    let issuer = Locked("")

    func addRoutes(to router: inout Router) {
        router.on(.post, "/sandbox/login", login)
        router.add(.delete, "/sandbox/login/{user_id}", .immediate(logout))
        router.on(.post, "/sandbox/keys/rotate") { _ in
            try await signingKeys.rotate()
            return Response(.noContent)
        }
    }

    func accessToken(of userID: Int64, appID: Int64?, expiresInSeconds seconds: Int64) -> String? {
        accessTokens.issue(
            AccessTokens.Grant(
                userID: userID,
                appID: appID ?? Int64(settings.appID),
                end: WallClock.unixMilliseconds + seconds * 1000
            )
        )
    }

    /// An ID token (OIDC) as Kakao makes it: `claims` are put over those that it has.
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
        let known: Set<String> = ["user_id", "app_id", "expires_in", "app_key"]
        let input = try ControlInput(bodyOf: request, known: known)
        guard let userID = try input.integer("user_id", in: 1...Int64.max) else {
            throw ControlInput.problem("user_id", "must be given", allowed: "1 to \(Int64.max)")
        }
        let appID = try input.integer("app_id", in: 1...Int64.max)
        let seconds = try input.integer("expires_in", in: 0...86_400) ?? 21_599
        guard let token = accessToken(of: userID, appID: appID, expiresInSeconds: seconds) else {
            throw Problem(.conflict, "\(AccessTokens.maximumTokens) tokens have been issued.")
        }
        var idToken: String?
        if let appKey = try input.string("app_key") {
            idToken = try await self.idToken(
                of: userID,
                appKey: appKey,
                expiresInSeconds: seconds
            )
        }
        var json = JSONWriter()
        json.object {
            $0.member("token_type", "bearer")
            $0.member("access_token", token)
            $0.member("expires_in", seconds)
            if let idToken { $0.member("id_token", idToken) }
        }
        return .json(json.bytes)
    }

    private func logout(_ request: Request) throws -> Response {
        guard let userID = UserIDs.parseOne(request.pathParameter("user_id")) else {
            throw Problem(.notFound, "There is no user of this id.")
        }
        accessTokens.revoke(userID: userID)
        return Response(.noContent)
    }
}
