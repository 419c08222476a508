internal import HTTPServer
internal import LogOutput
internal import Logging

// All settings, in the order of the documents.
extension Settings {
    static let declarations: [Setting] =
        http + [
            .required(
                "database.url",
                \.databaseURL,
                .secret(),
                example: "postgres://push:secret@localhost:5432/push",
                "the database, `postgres://user:password@host:5432/name`. It contains a password: prefer the environment or a file to the settings file"
            ),
            Setting(
                "database.migrate",
                \.migratesOnStart,
                .boolean,
                "whether `serve` applies pending migrations at start; otherwise it refuses to start until `push-server migrate` has run"
            ),
            .required(
                "operator.key",
                \.operatorKey,
                .secret(atLeast: 32),
                example: "/run/secrets/operator_key",
                "the initial operator key, for example from `openssl rand -hex 32`; it has all scopes"
            ),
        ] + kakao + identity + [
            Setting(
                "feedback.secret",
                \.feedbackSecret,
                optional: .urlPart,
                example: "/run/secrets/feedback_secret",
                "the secret part of `/kakao/push/feedback/{secret}`; without it the endpoint does not exist"
            ),
            Setting(
                "callbacks.user_id_argument",
                \.userIDArgument,
                optional: .text,
                example: "member",
                "the custom argument of Kakao Link callbacks that holds a user id: removed from stored callbacks when that user is erased"
            ),
            Setting(
                "pushes.retention_days",
                \.pushRetentionDays,
                .integer(1...3650),
                "days after its end at which a push is deleted, with its batches"
            ),
        ] + devices + [
            Setting(
                "journal.directory",
                \.journal.directory,
                optional: .path,
                default: "none; `/var/lib/push-server/journal` in the image, `.local/journal` with `dev`",
                example: "/var/lib/push-server/journal",
                "the directory that keeps calls from Kakao while PostgreSQL is unavailable; without it they are lost, and the log has a warning at start ([calls from Kakao](callbacks.md)). Use a local disk that outlives the container"
            ),
            Setting(
                "journal.max_bytes",
                \.journal.maximumBytes,
                .bytes(1 << 20...1 << 40),
                "the maximum size of all files in that directory; beyond it Kakao's calls are answered 503"
            ),
            Setting("log.level", \.logLevel, .choice, "the lowest level to log"),
            Setting(
                "log.format",
                \.logFormat,
                .choice,
                "`text` for people, `json` for programs; one line an event, on standard error"
            ),
        ]

    private static let http: [Setting] = [
        Setting("http.host", \.http.host, .text, "the numeric address to listen on"),
        Setting("http.port", \.http.port, .port, "the port; 0 for any free port"),
        Setting(
            "http.public_url",
            \.givenPublicURL,
            optional: .url,
            example: "https://push.example.com",
            "the public URL at which Kakao reaches the server; with `feedback.secret`, each push names it as `return_url`"
        ),
        Setting(
            "http.tls.certificate_file",
            \.certificateFile,
            optional: .path,
            example: "/etc/push-server/certificate.pem",
            "the certificate chain (PEM): enables HTTPS without a proxy"
        ),
        Setting(
            "http.tls.private_key_file",
            \.privateKeyFile,
            optional: .path,
            example: "/etc/push-server/key.pem",
            "the certificate's private key (PEM); required with the certificate"
        ),
        Setting(
            "http.max_body_bytes",
            \.http.maximumBodyBytes,
            .bytes(1024...1 << 30),
            "the maximum size of a request body; beyond it 413. Requests of phones and Kakao are limited to 64 KiB ([limits](http.md#limits))"
        ),
        Setting(
            "http.max_header_bytes",
            \.http.headLimits.headerBytes,
            .bytes(1024...1 << 20),
            "the maximum size of a request head; beyond it 431"
        ),
        Setting(
            "http.header_timeout_seconds",
            \.http.headerTimeout,
            .seconds,
            "time limit from the first byte of a request to its last header"
        ),
        Setting(
            "http.body_timeout_seconds",
            \.http.bodyTimeout,
            .seconds,
            "time limit for receiving a body, and for the peer to read a response; extended by the same time for a peer that keeps up `http.min_bytes_per_second`"
        ),
        Setting(
            "http.min_bytes_per_second",
            \.http.minimumBytesPerSecond,
            .integer(1...1_000_000),
            "the minimum average rate over that time at which a peer must send a body or read a response"
        ),
        Setting(
            "http.idle_timeout_seconds",
            \.http.idleTimeout,
            .seconds,
            "time limit between two requests on a connection"
        ),
        Setting(
            "http.max_connections",
            \.http.maximumConnections,
            .integer(1...1_000_000),
            "concurrent connections; further ones wait"
        ),
        Setting(
            "http.max_connections_per_address",
            \.http.maximumConnectionsPerAddress,
            .limitedInteger(1...1_000_000),
            "concurrent connections from one IPv4 address or IPv6 /64. At the limit the connection that has been idle longest is closed; if none is idle, the new one. Connections of trusted proxies and of Kakao are not counted"
        ),
        Setting(
            "http.trusted_proxies",
            \.http.trustedProxies,
            .proxies,
            example: "127.0.0.1, 10.0.0.0/8",
            "proxies whose `X-Forwarded-For` is trusted. **Set it behind a proxy**: otherwise all phones count as one address ([rate limits](#rate-limits))"
        ),
    ]

    private static let kakao: [Setting] = [
        .required(
            "kakao.admin_key",
            \.kakao.adminKey,
            .secret(),
            example: "/run/secrets/kakao_admin_key",
            "the app's Admin key at Kakao"
        ),
        Setting(
            "kakao.app_id",
            \.kakao.appID,
            optional: .identifier,
            example: "123456",
            "the app id at Kakao: access tokens must belong to this app; required for `/kakao/unlink`"
        ),
        Setting(
            "kakao.rest_api_key",
            \.kakao.restAPIKey,
            optional: .text,
            "the app's REST API key. ID tokens and account events must be issued for one of the app's three keys; at least one is required for `/kakao/account-events`"
        ),
        Setting("kakao.native_app_key", \.kakao.nativeAppKey, optional: .text, "the app's native app key"),
        Setting("kakao.javascript_key", \.kakao.javaScriptKey, optional: .text, "the app's JavaScript key"),
        Setting("kakao.api_url", \.kakao.apiURL, .url, "the base URL of Kakao's API"),
        Setting(
            "kakao.auth_url",
            \.kakao.authURL,
            .url,
            "the URL of Kakao Login: the issuer of ID tokens and account events, which publishes their keys"
        ),
        Setting(
            "kakao.ca_certificate_file",
            \.kakao.caCertificateFile,
            optional: .path,
            "CA certificates (PEM) to trust for Kakao's addresses instead of the system's: for the sandbox"
        ),
        Setting("kakao.push_version", \.kakao.pushVersion, .choice, "the version of Kakao's Push API to call"),
        Setting(
            "kakao.max_concurrent_requests",
            \.kakao.maximumConcurrentRequests,
            .integer(1...1000),
            "concurrent push requests to Kakao, for each server; each event loop has as many for requests of apps and operators, and a quarter for background work"
        ),
        Setting(
            "kakao.requests_per_second",
            \.kakao.requestsPerSecond,
            optional: .integer(1...100_000),
            "push requests to Kakao a second, for each server"
        ),
    ]

    private static let identity: [Setting] = [
        Setting(
            "identity.kakao_access_token",
            \.identity.given.kakaoAccessToken,
            optional: .boolean,
            default: "`true` if `kakao.app_id` is set",
            example: "true",
            "whether users' apps may call with a Kakao Login access token, for their own user only; needs `kakao.app_id`. The server verifies a token with Kakao and caches the result for at most 5 minutes"
        ),
        Setting(
            "identity.kakao_id_token",
            \.identity.given.kakaoIDToken,
            optional: .boolean,
            default: "`true` if one of the app's three keys is set",
            example: "true",
            "whether users' apps may call with a Kakao ID token (OIDC), signed with RS256 and issued for one of these keys"
        ),
        Setting(
            "identity.jwt.issuer",
            \.identity.given.issuer,
            optional: .text,
            example: "https://api.example.com",
            "`iss` of JSON Web Tokens of your own backend, with which users' apps may call the device endpoints; `sub` is the user id. Requires the audience, and exactly one of the secret, the URL and the file of the keys"
        ),
        Setting(
            "identity.jwt.audience",
            \.identity.given.audience,
            optional: .text,
            example: "push",
            "`aud` of these tokens"
        ),
        Setting(
            "identity.jwt.secret",
            \.identity.given.secret,
            optional: .secret(atLeast: 32),
            example: "/run/secrets/jwt_secret",
            "the secret that signs these tokens (HS256)"
        ),
        Setting(
            "identity.jwt.keys_url",
            \.identity.given.keysURL,
            optional: .url,
            example: "https://api.example.com/.well-known/jwks.json",
            "the URL of the JSON Web Key Set that verifies these tokens (RS256, ES256). It is fetched for an unknown `kid`, and for the first token after an hour, at most once a minute"
        ),
        Setting(
            "identity.jwt.keys_file",
            \.identity.given.keysFile,
            optional: .path,
            example: "/etc/push-server/keys.json",
            "a file with the JSON Web Key Set, read at start"
        ),
    ]

    private static let devices: [Setting] = [
        Setting(
            "devices.prune_after_failures",
            \.pruneAfterFailures,
            .integer(1...1000),
            "reports of a failed token after which its device is deregistered"
        ),
        Setting(
            "devices.renew_days_before_expiry",
            \.renewDaysBeforeExpiry,
            .integer(1...365),
            "days before expiry at Kakao at which a token is renewed; a change applies to devices that are registered at Kakao from then on ([devices](devices.md#token-renewal))"
        ),
        Setting(
            "devices.active_within_days",
            \.activeWithinDays,
            .integer(1...3650),
            "days since the last registration by the app after which a device is no longer renewed"
        ),
        Setting(
            "devices.user_ids",
            \.givenUserIDs,
            optional: .choice,
            default: "`kakao` if `kakao.app_id` is set or Kakao's tokens are accepted, otherwise `own`",
            example: "kakao",
            "whose user ids devices have. With `kakao`, the devices of a user who unlinks the app are deregistered; with `own`, the service numbers its users itself, and an unlink says nothing about devices"
        ),
        Setting(
            "devices.requests_per_minute_per_user",
            \.requestsPerMinutePerUser,
            .limit,
            "requests of each user's apps to the device endpoints, beyond which the response is 429; 0: no limit ([rate limits](#rate-limits))"
        ),
        Setting(
            "devices.requests_per_minute_per_address",
            \.requestsPerMinutePerAddress,
            .limit,
            "requests with users' tokens from each IPv4 address or IPv6 /64 to the device endpoints; 0: no limit"
        ),
    ]
}

// The rules that concern several settings.
extension Settings {
    /// Checks the rules between settings, and sets the defaults that depend on others.
    mutating func validate(_ reader: SettingsReader) throws {
        publicURL = givenPublicURL.map { .given($0) }
        guard (certificateFile == nil) == (privateKeyFile == nil) else {
            let missing = certificateFile == nil ? "http.tls.certificate_file" : "http.tls.private_key_file"
            throw reader.error(missing, "is required: set the certificate and its private key together.")
        }
        try identity.validate(reader, kakao)
        let acceptsKakaoTokens = identity.acceptsKakaoAccessTokens || identity.acceptsKakaoIDTokens
        deviceUserIDs = givenUserIDs ?? (kakao.appID != nil || acceptsKakaoTokens ? .kakao : .own)
        guard deviceUserIDs == .kakao || !acceptsKakaoTokens else {
            throw reader.error(
                "devices.user_ids",
                "cannot be own while Kakao's tokens are accepted, which name users by Kakao's ids: set identity.kakao_access_token and identity.kakao_id_token to false."
            )
        }
    }
}

extension Settings.Identity {
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

    fileprivate mutating func validate(_ reader: SettingsReader, _ kakao: Settings.Kakao) throws {
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
    }

    private func backend(_ reader: SettingsReader, _ kakao: Settings.Kakao) throws -> Backend? {
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
