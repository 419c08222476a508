internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// `/sandbox/login`: logs users in without a browser (`docs/sandbox.md`).
struct LoginControl: Sendable {
    let settings: KakaoSandboxSettings
    let accessTokens: AccessTokens

    func addRoutes(to router: inout Router) {
        router.add(.post, "/sandbox/login", .immediate(login))
        router.add(.delete, "/sandbox/login/{user_id}", .immediate(logout))
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

    private func login(_ request: Request) throws -> Response {
        let input = try ControlInput(bodyOf: request, known: ["user_id", "app_id", "expires_in"])
        guard let userID = try input.integer("user_id", in: 1...Int64.max) else {
            throw ControlInput.problem("user_id", "must be given", allowed: "1 to \(Int64.max)")
        }
        let appID = try input.integer("app_id", in: 1...Int64.max)
        let seconds = try input.integer("expires_in", in: 0...86_400) ?? 21_599
        guard let token = accessToken(of: userID, appID: appID, expiresInSeconds: seconds) else {
            throw Problem(.conflict, "\(AccessTokens.maximumTokens) tokens have been issued.")
        }
        var json = JSONWriter()
        json.object {
            $0.member("token_type", "bearer")
            $0.member("access_token", token)
            $0.member("expires_in", seconds)
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
