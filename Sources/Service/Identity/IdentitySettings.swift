package import Crypto
package import HTTPServer
package import Settings

/// The settings of the credentials that the server accepts, and of the users that they stand for. Those of `devices.*` are declared in
/// `DeviceSettings`.
package struct IdentitySettings: SettingsGroup {
    /// The first operator key, which has all scopes.
    package var operatorKey = Secret("")
    /// The secret part of the address to which Kakao reports failed tokens.
    package var feedbackSecret: Secret?
    /// Whether access tokens of Kakao Login are accepted. Requires ``KakaoSettings/appID``.
    package var acceptsKakaoAccessTokens = false
    /// Whether ID tokens of Kakao are accepted. Requires one of the app's keys.
    package var acceptsKakaoIDTokens = false
    /// The service's own backend; `nil` if its tokens are not accepted.
    package var backend: Backend?
    /// The origin of the user ids of devices and tokens.
    package var userIDs = UserIDs.kakao
    /// ``userIDs`` as given; `nil` if it follows from the app.
    package var givenUserIDs: UserIDs?
    /// The limit of requests of each user to the device endpoints and relayed calls; `nil` for no limit.
    package var requestsPerMinutePerUser: Int? = 60
    /// The limit of such requests from each address; `nil` for no limit.
    package var requestsPerMinutePerAddress: Int? = 600
    /// The addresses of the service's backends, which send requests of many users.
    package var trustedAddresses = TrustedProxies.none
    /// Whether the detail of a 401 says why the credential is not accepted.
    package var explainsRejections = false
    var given = Given()
    /// The minimum time between two fetches of an issuer's keys.
    package var keyFetchInterval = Duration.seconds(60)
    /// The time after which an issuer's keys are fetched again. A withdrawn key is trusted no longer than that.
    package var keyRefreshInterval = Duration.seconds(3600)

    package init() {}

    /// The origin of the user ids that the service uses.
    package enum UserIDs: String, CaseIterable, Sendable {
        /// Kakao's: an unlink withdraws the user's devices.
        case kakao
        /// The service's own.
        case own
    }

    /// An issuer of JSON Web Tokens for the service's users.
    package struct Backend: Sendable {
        package var issuer: String
        package var audience: String
        package var keys: Keys

        /// The source of the keys that verify the backend's tokens.
        package enum Keys: Sendable {
            case secret(Secret)
            case url(String)
            case file(String)
        }

        package init(issuer: String, audience: String, keys: Keys) {
            self.issuer = issuer
            self.audience = audience
            self.keys = keys
        }
    }

    package static let settings: [Setting<IdentitySettings>] = [
        .required(
            "operator.key",
            \.operatorKey,
            .secret(atLeast: 32),
            example: "/run/secrets/operator_key",
            reloadable: true,
            "the initial operator key, for example from `openssl rand -hex 32`; it has all scopes"
        ),
        Setting(
            "feedback.secret",
            \.feedbackSecret,
            optional: .urlPart,
            example: "/run/secrets/feedback_secret",
            reloadable: true,
            "the secret part of `/kakao/push/feedback/{secret}`; without it the endpoint does not exist"
        ),
        Setting(
            "identity.kakao_access_token",
            \.given.kakaoAccessToken,
            optional: .boolean,
            default: "`true` if `kakao.app_id` is set",
            example: "true",
            "whether users' apps may call with a Kakao Login access token, for their own user only; needs `kakao.app_id`. The server verifies a token with Kakao and caches the result for at most 5 minutes"
        ),
        Setting(
            "identity.kakao_id_token",
            \.given.kakaoIDToken,
            optional: .boolean,
            default: "`true` if one of the app's three keys is set",
            example: "true",
            "whether users' apps may call with a Kakao ID token (OIDC), signed with RS256 and issued for one of the app's three keys"
        ),
        Setting(
            "identity.jwt.issuer",
            \.given.issuer,
            optional: .text,
            example: "https://api.example.com",
            "`iss` of JSON Web Tokens of your own backend, with which users' apps may call the device endpoints; `sub` is the user id. Requires the audience, and exactly one of the secret, the URL and the file of the keys"
        ),
        Setting(
            "identity.jwt.audience",
            \.given.audience,
            optional: .text,
            example: "push",
            "`aud` of these tokens"
        ),
        Setting(
            "identity.jwt.secret",
            \.given.secret,
            optional: .secret(atLeast: 32),
            example: "/run/secrets/jwt_secret",
            "the secret that signs these tokens (HS256)"
        ),
        Setting(
            "identity.jwt.keys_url",
            \.given.keysURL,
            optional: .url,
            example: "https://api.example.com/.well-known/jwks.json",
            "the URL of the JSON Web Key Set that verifies these tokens (RS256, ES256). It is fetched for an unknown `kid`, and for the first token after an hour, at most once a minute"
        ),
        Setting(
            "identity.jwt.keys_file",
            \.given.keysFile,
            optional: .path,
            example: "/etc/push-server/keys.json",
            "a file with the JSON Web Key Set, read at start"
        ),
        Setting(
            "identity.trusted_addresses",
            \.trustedAddresses,
            .proxies,
            example: "10.1.0.0/16",
            "the addresses of your backends that send requests with the tokens of many users: no limit by address applies to them, as with an [operator key beside the token](relay.md#backends). Behind a proxy it is the address that one of `http.trusted_proxies` reports"
        ),
        Setting(
            "identity.explain_rejections",
            \.explainsRejections,
            .boolean,
            "whether the `detail` of a 401 says why the credential is not accepted ([reasons](errors.md#reasons-of-a-401)), as with `push-server dev`; the log and the metrics always do. For tests: strangers learn from it what the server knows"
        ),
    ]
}

extension IdentitySettings {
    /// The settings as given, from which the others follow.
    struct Given: Sendable {
        var kakaoAccessToken: Bool?
        var kakaoIDToken: Bool?
        var issuer: String?
        var audience: String?
        var secret: Secret?
        var keysURL: String?
        var keysFile: String?
    }

    /// Checks the rules between these settings, and sets the defaults that depend on the app.
    package mutating func validate(_ reader: SettingsReader, _ kakao: KakaoSettings) throws {
        acceptsKakaoAccessTokens = given.kakaoAccessToken ?? (kakao.appID != nil)
        guard !acceptsKakaoAccessTokens || kakao.appID != nil else {
            throw reader.error(
                "identity.kakao_access_token",
                "needs kakao.app_id: a token must belong to this app."
            )
        }
        acceptsKakaoIDTokens = given.kakaoIDToken ?? !kakao.loginKeys.isEmpty
        guard !acceptsKakaoIDTokens || !kakao.loginKeys.isEmpty else {
            throw reader.error(
                "identity.kakao_id_token",
                "needs kakao.native_app_key, kakao.rest_api_key or kakao.javascript_key: a token's audience is one of them."
            )
        }
        backend = try backend(reader, kakao)
        let acceptsKakaoTokens = acceptsKakaoAccessTokens || acceptsKakaoIDTokens
        userIDs = givenUserIDs ?? (kakao.appID != nil || acceptsKakaoTokens ? .kakao : .own)
        guard userIDs == .kakao || !acceptsKakaoTokens else {
            throw reader.error(
                "devices.user_ids",
                "cannot be own while Kakao's tokens are accepted, which name users by Kakao's ids: set identity.kakao_access_token and identity.kakao_id_token to false."
            )
        }
    }

    private func backend(_ reader: SettingsReader, _ kakao: KakaoSettings) throws -> Backend? {
        let keys: [Backend.Keys] = [
            given.secret.map { .secret($0) }, given.keysURL.map { .url($0) }, given.keysFile.map { .file($0) },
        ].compactMap(\.self)
        guard let issuer = given.issuer else {
            guard given.audience == nil, keys.isEmpty else {
                throw reader.error("identity.jwt.issuer", "is required with the other settings of identity.jwt.")
            }
            return nil
        }
        guard issuer != kakao.authURL else {
            throw reader.error("identity.jwt.issuer", "must not be Kakao's issuer: use identity.kakao_id_token.")
        }
        guard let audience = given.audience else {
            throw reader.error("identity.jwt.audience", "is required with identity.jwt.issuer.")
        }
        guard let key = keys.first, keys.count == 1 else {
            throw reader.error(
                "identity.jwt.issuer",
                "needs exactly one of identity.jwt.secret, identity.jwt.keys_url and identity.jwt.keys_file."
            )
        }
        return Backend(issuer: issuer, audience: audience, keys: key)
    }
}
