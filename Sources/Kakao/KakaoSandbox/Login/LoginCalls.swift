import HTTPServer
import JSON
import KakaoAPI
import Locking

/// Kakao Login: the information about access tokens, and the documents of OpenID Connect.
struct LoginCalls: Sendable {
    let settings: KakaoSandboxSettings
    let users: AppUsers
    let signingKeys: SigningKeys
    /// The issuer of ID tokens: see ``LoginControl/issuer``.
    let issuer: Locked<String>

    func add(to server: inout KakaoCallServer) {
        server.on(AccessTokenInfo.self) { _, caller throws(KakaoRefusal) in
            guard let grant = caller.grant else { throw .unauthorized("this access token does not exist") }
            // Kakao does not name a user who has to sign up.
            let isOwn = grant.appID == Int64(settings.appID)
            let isNamed = !isOwn || !users.user(grant.userID).awaitsSignUp
            return AccessTokenInfo.Answer(
                userID: isNamed ? grant.userID : nil,
                expiresInSeconds: max(0, (grant.expiresAt - WallClock.unixMilliseconds) / 1000),
                appID: grant.appID
            )
        }
        server.on("/.well-known/jwks.json") { _ in .json(try await signingKeys.publishedKeys()) }
        server.on("/.well-known/openid-configuration") { _ in configuration }
    }

    /// The configuration (OpenID Connect Discovery §3).
    private var configuration: Response {
        let issuer = issuer.withLock { $0 }
        return .json {
            $0.member("issuer", issuer)
            $0.member("authorization_endpoint", issuer + "/oauth/authorize")
            $0.member("token_endpoint", issuer + "/oauth/token")
            $0.member("jwks_uri", issuer + "/.well-known/jwks.json")
            $0.member("token_endpoint_auth_methods_supported", ["client_secret_post"])
            $0.member("subject_types_supported", ["public"])
            $0.member("id_token_signing_alg_values_supported", ["RS256"])
            $0.member("response_types_supported", ["code"])
            $0.member("code_challenge_methods_supported", ["S256"])
        }
    }
}
