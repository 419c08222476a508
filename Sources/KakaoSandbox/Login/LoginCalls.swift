internal import HTTPServer
internal import KakaoAPI

/// Kakao Login: the information about access tokens, and Kakao's public keys.
struct LoginCalls: Sendable {
    let signingKeys: SigningKeys

    func add(to server: inout KakaoCallServer) {
        server.on(AccessTokenInfo.self) { _, caller throws(KakaoRefusal) in
            guard let grant = caller.grant else { throw .unauthorized("this access token does not exist") }
            return AccessTokenInfo.Answer(
                userID: grant.userID,
                expiresInSeconds: max(0, (grant.end - WallClock.unixMilliseconds) / 1000),
                appID: grant.appID
            )
        }
        server.on("/.well-known/jwks.json") { .json(try await signingKeys.jwks()) }
    }
}
