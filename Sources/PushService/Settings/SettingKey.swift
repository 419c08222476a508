/// Every setting, by the name that it has in `config/push-server.yaml`.
///
/// The environment overrides the file: `http.port` is `HTTP_PORT`. A secret may also come from a file: `OPERATOR_KEY_FILE`, or
/// `operator.key_file`.
enum SettingKey: String, CaseIterable {
    /// The numeric address to listen on; `127.0.0.1`.
    case httpHost = "http.host"
    /// The port to listen on, 0 to 65535, 0 for any that is free; `8080`.
    case httpPort = "http.port"
    /// Where Kakao reaches this server, `https://push.example.com`: goes into each push as `return_url`; none.
    case httpPublicURL = "http.public_url"
    /// The server's certificate chain, PEM; none for plain HTTP behind a proxy.
    case httpTLSCertificateFile = "http.tls.certificate_file"
    /// The certificate's private key, PEM; goes with `http.tls.certificate_file`.
    case httpTLSPrivateKeyFile = "http.tls.private_key_file"
    /// The largest request body in bytes, 1 KiB to 1 GiB; 1 MiB.
    case httpMaxBodyBytes = "http.max_body_bytes"
    /// The largest request head in bytes, 1 KiB to 1 MiB; 16 KiB.
    case httpMaxHeaderBytes = "http.max_header_bytes"
    /// Seconds from the first byte of a request to its last header, 1 to 3600; 10.
    case httpHeaderTimeout = "http.header_timeout_seconds"
    /// Seconds for a body to come and for an answer to be taken, 1 to 3600, at `http.min_bytes_per_second` again and again; 30.
    case httpBodyTimeout = "http.body_timeout_seconds"
    /// Bytes a second that a body or the taking of an answer must keep up, 1 to 1,000,000; 500.
    case httpMinBytesPerSecond = "http.min_bytes_per_second"
    /// Seconds between two requests on a connection, 1 to 3600; 75.
    case httpIdleTimeout = "http.idle_timeout_seconds"
    /// Connections at a time, 1 to 1,000,000; 10,000.
    case httpMaxConnections = "http.max_connections"
    /// Connections at a time from one IPv4 address or IPv6 /64 network, 1 to 1,000,000; 1,000.
    case httpMaxConnectionsPerAddress = "http.max_connections_per_address"
    /// Proxies whose `X-Forwarded-For` is believed: addresses and networks with commas between them; none.
    case httpTrustedProxies = "http.trusted_proxies"
    /// How PostgreSQL is reached: `postgres://user:password@host:5432/name`. Secret. Required.
    case databaseURL = "database.url"
    /// Whether `serve` applies pending migrations on start; `true`.
    case databaseMigrate = "database.migrate"
    /// The first operator's key, at least 32 characters. Secret. Required.
    case operatorKey = "operator.key"
    /// The app's Admin key at Kakao. Secret. Required.
    case kakaoAdminKey = "kakao.admin_key"
    /// The app's number at Kakao, 1 to 2^63-1; without it there is no `/kakao/unlink`.
    case kakaoAppID = "kakao.app_id"
    /// The app's REST API key at Kakao, which account events are for; without any of the three keys there is no `/kakao/account-events`.
    case kakaoRESTAPIKey = "kakao.rest_api_key"
    /// The app's native app key at Kakao.
    case kakaoNativeAppKey = "kakao.native_app_key"
    /// The app's JavaScript key at Kakao.
    case kakaoJavaScriptKey = "kakao.javascript_key"
    /// Where Kakao's API is; `https://kapi.kakao.com`.
    case kakaoAPIURL = "kakao.api_url"
    /// Where Kakao Login is; `https://kauth.kakao.com`.
    case kakaoAuthURL = "kakao.auth_url"
    /// Certificates (PEM) to trust at Kakao's addresses in place of the system's: for the sandbox; none.
    case kakaoCACertificateFile = "kakao.ca_certificate_file"
    /// The version of Kakao's Push API that is spoken to Kakao, `v1` or `v2`; `v1`.
    case kakaoPushVersion = "kakao.push_version"
    /// Pushes under way to Kakao at a time, 1 to 1000; 32.
    case kakaoMaxConcurrentRequests = "kakao.max_concurrent_requests"
    /// Pushes begun to Kakao in a second, 1 to 100,000; no limit.
    case kakaoRequestsPerSecond = "kakao.requests_per_second"
    /// Whether a user's app may call with a Kakao Login access token; `true` when `kakao.app_id` is set.
    case identityKakaoAccessToken = "identity.kakao_access_token"
    /// Whether a user's app may call with a Kakao ID token (OIDC); `true` when a REST API, native app or JavaScript key is set.
    case identityKakaoIDToken = "identity.kakao_id_token"
    /// `iss` of the JSON Web Tokens of the service's own backend, which are accepted when it is set; none.
    case identityJWTIssuer = "identity.jwt.issuer"
    /// `aud` of these tokens. Required with `identity.jwt.issuer`.
    case identityJWTAudience = "identity.jwt.audience"
    /// What these tokens are signed with (HS256), at least 32 characters. Secret. This, or one of the next two.
    case identityJWTSecret = "identity.jwt.secret"
    /// Where the keys are that these tokens are verified with (RS256, ES256): the address of a JSON Web Key Set.
    case identityJWTKeysURL = "identity.jwt.keys_url"
    /// The same as a file, which is read at the start.
    case identityJWTKeysFile = "identity.jwt.keys_file"
    /// The secret part of the address that Kakao reports failed tokens to, at least 16 letters, digits, `-` and `_`. Secret.
    case feedbackSecret = "feedback.secret"
    /// The custom argument of Kakao Link callbacks that holds a user's number, which is taken out when the user is forgotten; none.
    case callbacksUserIDArgument = "callbacks.user_id_argument"
    /// Days after which a push that has ended is removed, with its batches, 1 to 3650; 30.
    case pushesRetentionDays = "pushes.retention_days"
    /// Failures of a token after which its device is deregistered, 1 to 1000; 3.
    case devicesPruneAfterFailures = "devices.prune_after_failures"
    /// Days before a token expires at Kakao that it is registered again, 1 to 365; 7.
    case devicesRenewDaysBeforeExpiry = "devices.renew_days_before_expiry"
    /// Days since its app last registered a device within which its token is registered again, 1 to 3650; 90.
    case devicesActiveWithinDays = "devices.active_within_days"
    /// Requests a minute of each user's apps to the device endpoints, 0 to 1,000,000, 0 for no limit; 60.
    case devicesRequestsPerMinutePerUser = "devices.requests_per_minute_per_user"
    /// The same from each IPv4 address or IPv6 /64 network; 600.
    case devicesRequestsPerMinutePerAddress = "devices.requests_per_minute_per_address"
    /// Where calls from Kakao are kept while PostgreSQL does not answer; without it they are lost.
    case journalDirectory = "journal.directory"
    /// The size of all files in `journal.directory`, 1 MiB to 1 TiB; 1 GiB.
    case journalMaxBytes = "journal.max_bytes"
    /// The least severe lines to log: `trace debug info notice warning error critical`; `info`.
    case logLevel = "log.level"
    /// `text` or `json`; `text`.
    case logFormat = "log.format"

    /// Never printed, and may come from a file.
    var isSecret: Bool {
        switch self {
        case .databaseURL, .operatorKey, .kakaoAdminKey, .identityJWTSecret, .feedbackSecret: true
        default: false
        }
    }

    /// `HTTP_PORT` for `http.port`.
    var environmentName: String {
        String(rawValue.map { $0 == "." ? "_" : Character($0.uppercased()) })
    }
}
