internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import Locking
internal import Schemas

/// The controls `/sandbox/login` and `/sandbox/keys`, which log users in without a browser and rotate Kakao's keys
/// (`docs/sandbox.md`).
struct LoginControl: Sendable {
    let settings: KakaoSandboxSettings
    let accessTokens: AccessTokens
    let users: AppUsers
    let signingKeys: SigningKeys
    /// The issuer of ID tokens, which is the sandbox's URL. It is known once the sandbox listens.
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
        let ownAppID = Int64(settings.appID)
        let appID = appID ?? ownAppID
        if appID == ownAppID { users.logIn(userID, consentingTo: []) }
        return accessTokens.issue(
            AccessTokens.Grant(
                userID: userID,
                appID: appID,
                end: WallClock.unixMilliseconds + seconds * 1000
            )
        )
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
        let known: Set<String> = ["user_id", "app_id", "expires_in", "app_key"]
        let input = try ControlInput(bodyOf: request, known: known)
        guard let userID = try input.integer("user_id", in: 1...Int64.max) else {
            throw ControlInput.problem("user_id", "is required", allowed: "1 to \(Int64.max)")
        }
        let appID = try input.integer("app_id", in: 1...Int64.max)
        let seconds = try input.integer("expires_in", in: 0...86_400) ?? 21_599
        guard let token = accessToken(of: userID, appID: appID, expiresInSeconds: seconds) else {
            throw Problem(
                .conflict,
                "\(AccessTokens.maximumTokens) access tokens are stored already. Revoke some with DELETE /sandbox/login/{user_id}."
            )
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
        guard let userID = UserID.read(.string(request.pathParameter("user_id"))) else {
            throw Problem(.notFound, "The user id in the path must be an integer from 1 to 2^63-1.")
        }
        accessTokens.revoke(userID: userID)
        return Response(.noContent)
    }
}
