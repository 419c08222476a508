/// The settings, by their names in `config/push-server.yaml`.
///
/// The environment overrides the file: `http.port` is `HTTP_PORT`. A secret may also come from a file, named by
/// `OPERATOR_KEY_FILE` or `operator.key_file`. In the comments, the default is after the semicolon.
enum SettingKey: String, CaseIterable {
    /// The numeric address to listen on; `127.0.0.1`.
    case httpHost = "http.host"
    /// The port to listen on, 0 to 65535, with 0 for any free port; `8080`.
    case httpPort = "http.port"
    /// The URL at which Kakao reaches this server, such as `https://push.example.com`; none. With `feedback.secret` it
    /// is part of the `return_url` of each push.
    case httpPublicURL = "http.public_url"
    /// The file of the server's certificate chain (PEM); none, which means plain HTTP behind a proxy.
    case httpTLSCertificateFile = "http.tls.certificate_file"
    /// The file of the certificate's private key (PEM). Required with `http.tls.certificate_file`.
    case httpTLSPrivateKeyFile = "http.tls.private_key_file"
    /// The limit of a request body in bytes, 1 KiB to 1 GiB; 1 MiB.
    case httpMaxBodyBytes = "http.max_body_bytes"
    /// The limit of a request head in bytes, 1 KiB to 1 MiB; 16 KiB.
    case httpMaxHeaderBytes = "http.max_header_bytes"
    /// The timeout in seconds from the first byte of a request to its last header, 1 to 3600; 10.
    case httpHeaderTimeout = "http.header_timeout_seconds"
    /// The timeout in seconds for receiving a body and for sending a response, 1 to 3600; 30. A client that keeps up
    /// `http.min_bytes_per_second` gets the same time again.
    case httpBodyTimeout = "http.body_timeout_seconds"
    /// The minimum rate in bytes per second at which a client must send a body or receive a response, 1 to 1,000,000;
    /// 500.
    case httpMinBytesPerSecond = "http.min_bytes_per_second"
    /// The timeout in seconds between two requests on a connection, 1 to 3600; 75.
    case httpIdleTimeout = "http.idle_timeout_seconds"
    /// The limit of concurrent connections, 1 to 1,000,000; 10,000.
    case httpMaxConnections = "http.max_connections"
    /// The limit of concurrent connections from one IPv4 address or IPv6 /64 network, 1 to 1,000,000; 1,000.
    case httpMaxConnectionsPerAddress = "http.max_connections_per_address"
    /// The proxies whose `X-Forwarded-For` is trusted, as a comma-separated list of addresses and networks; none.
    case httpTrustedProxies = "http.trusted_proxies"
    /// The URL of the PostgreSQL database: `postgres://user:password@host:5432/name`. Secret. Required.
    case databaseURL = "database.url"
    /// Whether `serve` applies pending migrations on start; `true`.
    case databaseMigrate = "database.migrate"
    /// The first operator's key, at least 32 characters. Secret. Required.
    case operatorKey = "operator.key"
    /// The app's Admin key at Kakao. Secret. Required.
    case kakaoAdminKey = "kakao.admin_key"
    /// The app's id at Kakao, 1 to 2^63-1; none. Without it there is no `/kakao/unlink`.
    case kakaoAppID = "kakao.app_id"
    /// The app's REST API key at Kakao; none. Without any of the three keys there is no `/kakao/account-events`.
    case kakaoRESTAPIKey = "kakao.rest_api_key"
    /// The app's native app key at Kakao; none.
    case kakaoNativeAppKey = "kakao.native_app_key"
    /// The app's JavaScript key at Kakao; none.
    case kakaoJavaScriptKey = "kakao.javascript_key"
    /// The URL of Kakao's API; `https://kapi.kakao.com`.
    case kakaoAPIURL = "kakao.api_url"
    /// The URL of Kakao Login; `https://kauth.kakao.com`.
    case kakaoAuthURL = "kakao.auth_url"
    /// The file of certificates (PEM) to trust at Kakao's addresses instead of the system's, for the sandbox; none.
    case kakaoCACertificateFile = "kakao.ca_certificate_file"
    /// The version of Kakao's Push API that the server calls, `v1` or `v2`; `v1`.
    case kakaoPushVersion = "kakao.push_version"
    /// The limit of send requests to Kakao in flight, 1 to 1000; 32.
    case kakaoMaxConcurrentRequests = "kakao.max_concurrent_requests"
    /// The limit of send requests to Kakao per second, 1 to 100,000; no limit.
    case kakaoRequestsPerSecond = "kakao.requests_per_second"
    /// Whether apps may authenticate with a Kakao Login access token; `true` if `kakao.app_id` is set.
    case identityKakaoAccessToken = "identity.kakao_access_token"
    /// Whether apps may authenticate with a Kakao ID token (OIDC); `true` if a REST API, native app or JavaScript key
    /// is set.
    case identityKakaoIDToken = "identity.kakao_id_token"
    /// The `iss` of the JSON Web Tokens of the service's own backend; none, which means that they are not accepted.
    case identityJWTIssuer = "identity.jwt.issuer"
    /// The `aud` of the backend's tokens. Required with `identity.jwt.issuer`.
    case identityJWTAudience = "identity.jwt.audience"
    /// The secret that signs the backend's tokens (HS256), at least 32 characters. Secret. Exactly one of
    /// `identity.jwt.secret`, `identity.jwt.keys_url` and `identity.jwt.keys_file` is required with
    /// `identity.jwt.issuer`.
    case identityJWTSecret = "identity.jwt.secret"
    /// The URL of the JSON Web Key Set that verifies the backend's tokens (RS256, ES256).
    case identityJWTKeysURL = "identity.jwt.keys_url"
    /// The file of the JSON Web Key Set that verifies the backend's tokens (RS256, ES256), read at the start.
    case identityJWTKeysFile = "identity.jwt.keys_file"
    /// The secret part of the URL to which Kakao reports failed tokens, at least 16 letters, digits, `-` and `_`; none.
    /// Secret.
    case feedbackSecret = "feedback.secret"
    /// The custom argument of Kakao Link callbacks that contains a user's id; none. It is removed from stored callbacks
    /// when the user's data is erased.
    case callbacksUserIDArgument = "callbacks.user_id_argument"
    /// The number of days after which a finished push and its batches are deleted, 1 to 3650; 30.
    case pushesRetentionDays = "pushes.retention_days"
    /// The number of failures of a token after which its device is deregistered, 1 to 1000; 3.
    case devicesPruneAfterFailures = "devices.prune_after_failures"
    /// The number of days before its expiry at Kakao when a token is renewed, 1 to 365; 7.
    case devicesRenewDaysBeforeExpiry = "devices.renew_days_before_expiry"
    /// The number of days after a device's last registration by its app during which its token is renewed, 1 to 3650;
    /// 90.
    case devicesActiveWithinDays = "devices.active_within_days"
    /// Whose user ids devices have, `kakao` or `own`; `kakao` if `kakao.app_id` is set or Kakao's tokens are accepted,
    /// otherwise `own`. With `kakao`, the devices of a user who unlinks the app are withdrawn.
    case devicesUserIDs = "devices.user_ids"
    /// The limit of requests per minute of each user to the device endpoints, 0 to 1,000,000, with 0 for no limit; 60.
    case devicesRequestsPerMinutePerUser = "devices.requests_per_minute_per_user"
    /// The limit of requests per minute with users' tokens from each IPv4 address or IPv6 /64 network to the device
    /// endpoints, 0 to 1,000,000, with 0 for no limit; 600.
    case devicesRequestsPerMinutePerAddress = "devices.requests_per_minute_per_address"
    /// The directory that stores Kakao's calls while PostgreSQL is unavailable; none, which means that they are lost.
    case journalDirectory = "journal.directory"
    /// The limit of the total size in bytes of the files in `journal.directory`, 1 MiB to 1 TiB; 1 GiB.
    case journalMaxBytes = "journal.max_bytes"
    /// The lowest level to log, one of `trace debug info notice warning error critical`; `info`.
    case logLevel = "log.level"
    /// The format of the log, `text` or `json`; `text`.
    case logFormat = "log.format"

    /// Whether the setting is secret: it is never printed and may come from a file.
    var isSecret: Bool {
        switch self {
        case .databaseURL, .operatorKey, .kakaoAdminKey, .identityJWTSecret, .feedbackSecret: true
        default: false
        }
    }

    /// The name of the environment variable, such as `HTTP_PORT` for `http.port`.
    var environmentName: String {
        String(rawValue.map { $0 == "." ? "_" : Character($0.uppercased()) })
    }
}
