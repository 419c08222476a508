internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// `/v1/user/access_token_info` and `/.well-known/jwks.json` as Kakao serves them (Kakao Login REST API), with injected
/// faults.
struct LoginAPI: Sendable {
    private static let tokenInfoPath = "/v1/user/access_token_info"
    private static let keysPath = "/.well-known/jwks.json"

    let accessTokens: AccessTokens
    let signingKeys: SigningKeys
    let faults: FaultBoard
    let delays: Delays

    func addRoutes(to router: inout Router) {
        router.on(.get, Self.tokenInfoPath, tokenInfo)
        router.on(.get, Self.keysPath) { request in
            let keys = try await signingKeys.jwks()
            return try await withFaults(Self.keysPath, request, users: []) { .json(keys) }
        }
    }

    private func tokenInfo(_ request: Request) async throws -> Response {
        let grant = Self.bearer(request).flatMap { accessTokens.grant(of: $0) }
        return try await withFaults(Self.tokenInfoPath, request, users: grant.map { [$0.userID] } ?? []) {
            guard let grant else {
                return KakaoRefusal.unauthorized("this access token does not exist").response
            }
            var json = JSONWriter()
            json.object {
                $0.member("id", grant.userID)
                $0.member("expires_in", max(0, (grant.end - WallClock.unixMilliseconds) / 1000))
                $0.member("app_id", grant.appID)
            }
            return .json(json.bytes)
        }
    }

    private static func bearer(_ request: Request) -> String? {
        guard let field = request[.authorization], field.hasPrefix("Bearer ") else { return nil }
        return String(field.dropFirst("Bearer ".count))
    }

    /// Returns the response of `answer`, unless a fault replaces it.
    private func withFaults(
        _ path: String,
        _ request: Request,
        users: [Int64],
        _ answer: () throws -> Response
    ) async throws -> Response {
        let verdict = faults.verdict(on: path, users: users)
        if let delay = verdict.delay { try await delays.wait(delay, on: request.loop) }
        switch verdict.end {
        case .refuse(let refusal): return refusal.response
        case .drop: throw ConnectionAbort()
        case nil: return try answer()
        }
    }
}
