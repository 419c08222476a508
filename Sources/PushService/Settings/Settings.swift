package import HTTPServer
package import Journal
package import KakaoAPI
package import LogOutput
package import Logging

/// The settings of a server. `docs/settings.md` has a table of them.
package struct Settings: Sendable {
    package var http = HTTPServerSettings()
    package var certificateFile: String?
    package var privateKeyFile: String?
    package var publicURL: PublicURL?
    /// The URL of the PostgreSQL database.
    package var databaseURL: Secret
    package var migratesOnStart = true
    package var operatorKey: Secret
    package var kakao: Kakao
    package var identity = Identity()
    package var feedbackSecret: Secret?
    package var pruneAfterFailures = 3
    package var userIDArgument: String?
    package var pushRetentionDays = 30
    package var renewDaysBeforeExpiry = 7
    package var deviceUserIDs = UserIDs.kakao
    package var activeWithinDays = 90
    /// The limit of requests of each user to the device endpoints; `nil` for no limit.
    package var requestsPerMinutePerUser: Int? = 60
    /// The limit of requests from each address to the device endpoints; `nil` for no limit.
    package var requestsPerMinutePerAddress: Int? = 600
    package var journal = Journal()
    package var logLevel = Logger.Level.info
    package var logFormat = LogFormat.text

    /// Whose user ids devices have.
    package enum UserIDs: String, CaseIterable, Sendable {
        /// Kakao's: an unlink withdraws the user's devices.
        case kakao
        /// The service's own.
        case own
    }

    /// The URL at which Kakao reaches the server.
    package enum PublicURL: Sendable {
        case given(String)
        /// The address that the server listens on, for a sandbox on the same machine.
        case own
    }

    /// The settings of the journal, which stores Kakao's calls while PostgreSQL is unavailable.
    package struct Journal: Sendable {
        /// The directory of the journal; `nil` for no journal.
        package var directory: String?
        package var maximumBytes = 1 << 30
        /// The file operations, which tests replace to simulate failing disks.
        package var fileOperations = FileOperations.system
    }

    /// The settings of the app at Kakao and of the calls to Kakao.
    package struct Kakao: Sendable {
        package var adminKey: Secret
        package var appID: Int64?
        package var restAPIKey: String?
        package var nativeAppKey: String?
        package var javaScriptKey: String?
        package var apiURL = "https://kapi.kakao.com"
        package var authURL = "https://kauth.kakao.com"
        package var caCertificateFile: String?
        package var pushVersion = PushVersion.v1
        package var maximumConcurrentRequests = 32
        package var requestsPerSecond: Int?

        /// The app keys with which a user may have logged in. ID tokens and account events have one as their audience.
        var loginKeys: Set<String> { Set([restAPIKey, nativeAppKey, javaScriptKey].compactMap(\.self)) }

        /// The URL of the keys with which Kakao signs ID tokens.
        var keysURL: String { authURL + "/.well-known/jwks.json" }

        /// The settings of the client of Kakao's REST API.
        var api: KakaoAPISettings {
            KakaoAPISettings(
                apiURL: apiURL,
                authURL: authURL,
                adminKey: AdminKey(adminKey.revealed),
                pushVersion: pushVersion
            )
        }
    }

    /// The kinds of tokens with which users' apps may authenticate.
    package struct Identity: Sendable {
        /// Whether access tokens of Kakao Login are accepted. Requires ``Kakao/appID``.
        package var acceptsKakaoAccessTokens = false
        /// Whether ID tokens of Kakao are accepted. Requires one of the app's keys.
        package var acceptsKakaoIDTokens = false
        /// The service's own backend; `nil` if its tokens are not accepted.
        package var backend: Backend?
        /// The minimum time between two fetches of an issuer's keys.
        package var keyFetchInterval = Duration.seconds(60)
        /// The time after which an issuer's keys are fetched again. A withdrawn key is trusted no longer than that.
        package var keyRefreshInterval = Duration.seconds(3600)

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

            /// Whether the backend signs with a shared secret.
            var isSecret: Bool {
                guard case .secret = keys else { return false }
                return true
            }
        }
    }

    /// Creates settings from the required ones, with the defaults for all others.
    package init(databaseURL: Secret, operatorKey: Secret, adminKey: Secret) {
        self.databaseURL = databaseURL
        self.operatorKey = operatorKey
        kakao = Kakao(adminKey: adminKey)
        http.port = 8080
        http.maximumConnectionsPerAddress = 1000
    }

    /// The URL at which this machine reaches the server. A wildcard host is replaced by the loopback address.
    package var localURL: String {
        let host =
            switch http.host {
            case "0.0.0.0": "127.0.0.1"
            case "::": "[::1]"
            default: http.host.contains(":") ? "[\(http.host)]" : http.host
            }
        return "\(certificateFile == nil ? "http" : "https")://\(host):\(http.port)"
    }

    /// Reads the settings of a server.
    ///
    /// - Parameters:
    ///   - environment: The process's environment, which overrides the file.
    ///   - yaml: The text of the settings file, or `nil` without one.
    ///   - path: The path of that file, for error messages.
    ///   - readFile: Reads a file that contains a secret.
    /// - Throws: ``SettingsError`` for the first setting that is missing, unknown or invalid.
    package init(
        environment: [String: String],
        yaml: String?,
        path: String,
        readFile: @escaping (String) throws -> String
    ) throws {
        let file = try yaml.map { try SettingsFile(yaml: $0, path: path) }
        let reader = SettingsReader(environment: environment, file: file, readFile: readFile)
        func required(_ key: SettingKey, atLeast length: Int = 1) throws -> Secret {
            guard let secret = try reader.secret(key, atLeast: length) else { throw reader.error(key, "is required.") }
            return secret
        }
        self.init(
            databaseURL: try required(.databaseURL),
            operatorKey: try required(.operatorKey, atLeast: 32),
            adminKey: try required(.kakaoAdminKey)
        )
        try readHTTP(reader)
        try readKakao(reader)
        try readIdentity(reader)
        if let migrates = try reader.boolean(.databaseMigrate) { migratesOnStart = migrates }
        feedbackSecret = try reader.secret(.feedbackSecret, atLeast: 16)
        if let secret = feedbackSecret?.revealed, !secret.utf8.allSatisfy(Self.isUnreserved) {
            throw reader.error(.feedbackSecret, "may contain only letters, digits, - and _: it is part of a URL.")
        }
        userIDArgument = try reader.text(.callbacksUserIDArgument)
        pushRetentionDays = try reader.integer(.pushesRetentionDays, in: 1...3650) ?? pushRetentionDays
        pruneAfterFailures = try reader.integer(.devicesPruneAfterFailures, in: 1...1000) ?? pruneAfterFailures
        renewDaysBeforeExpiry = try reader.integer(.devicesRenewDaysBeforeExpiry, in: 1...365) ?? renewDaysBeforeExpiry
        activeWithinDays = try reader.integer(.devicesActiveWithinDays, in: 1...3650) ?? activeWithinDays
        let acceptsKakaoTokens = identity.acceptsKakaoAccessTokens || identity.acceptsKakaoIDTokens
        let userIDs = kakao.appID != nil || acceptsKakaoTokens ? UserIDs.kakao : .own
        deviceUserIDs = try reader.choice(.devicesUserIDs, UserIDs.self) ?? userIDs
        guard deviceUserIDs == .kakao || !acceptsKakaoTokens else {
            throw reader.error(
                .devicesUserIDs,
                "cannot be own while Kakao's tokens are accepted, which name users by Kakao's ids: set identity.kakao_access_token and identity.kakao_id_token to false."
            )
        }
        requestsPerMinutePerUser = try reader.limit(.devicesRequestsPerMinutePerUser) ?? requestsPerMinutePerUser
        requestsPerMinutePerAddress =
            try reader.limit(.devicesRequestsPerMinutePerAddress) ?? requestsPerMinutePerAddress
        journal.directory = try reader.text(.journalDirectory)
        journal.maximumBytes = try reader.integer(.journalMaxBytes, in: (1 << 20)...(1 << 40)) ?? journal.maximumBytes
        logLevel = try reader.choice(.logLevel, Logger.Level.self) ?? logLevel
        logFormat = try reader.choice(.logFormat, LogFormat.self) ?? logFormat
    }

    private mutating func readHTTP(_ reader: SettingsReader) throws {
        http.host = try reader.text(.httpHost) ?? http.host
        http.port = try reader.integer(.httpPort, in: 0...65_535) ?? http.port
        publicURL = try reader.url(.httpPublicURL).map { .given($0) }
        certificateFile = try reader.text(.httpTLSCertificateFile)
        privateKeyFile = try reader.text(.httpTLSPrivateKeyFile)
        guard (certificateFile == nil) == (privateKeyFile == nil) else {
            let missing: SettingKey = certificateFile == nil ? .httpTLSCertificateFile : .httpTLSPrivateKeyFile
            throw reader.error(missing, "is required: set the certificate and its private key together.")
        }
        http.maximumBodyBytes = try reader.integer(.httpMaxBodyBytes, in: 1024...(1 << 30)) ?? http.maximumBodyBytes
        let headerBytes = try reader.integer(.httpMaxHeaderBytes, in: 1024...(1 << 20))
        http.headLimits.headerBytes = headerBytes ?? http.headLimits.headerBytes
        http.headerTimeout = try reader.seconds(.httpHeaderTimeout, default: 10)
        http.bodyTimeout = try reader.seconds(.httpBodyTimeout, default: 30)
        http.idleTimeout = try reader.seconds(.httpIdleTimeout, default: 75)
        let slowest = try reader.integer(.httpMinBytesPerSecond, in: 1...1_000_000)
        http.minimumBytesPerSecond = slowest ?? http.minimumBytesPerSecond
        http.maximumConnectionsPerAddress =
            try reader.integer(.httpMaxConnectionsPerAddress, in: 1...1_000_000) ?? http.maximumConnectionsPerAddress
        http.maximumConnections = try reader.integer(.httpMaxConnections, in: 1...1_000_000) ?? http.maximumConnections
        if let text = try reader.text(.httpTrustedProxies) {
            guard let proxies = TrustedProxies(text) else {
                throw reader.error(
                    .httpTrustedProxies,
                    "must be a comma-separated list of addresses and networks: 127.0.0.1, 10.0.0.0/8, 2001:db8::/32."
                )
            }
            http.trustedProxies = proxies
        }
    }

    private mutating func readKakao(_ reader: SettingsReader) throws {
        kakao.appID = try reader.integer(.kakaoAppID, in: 1...Int.max).map(Int64.init)
        kakao.restAPIKey = try reader.text(.kakaoRESTAPIKey)
        kakao.nativeAppKey = try reader.text(.kakaoNativeAppKey)
        kakao.javaScriptKey = try reader.text(.kakaoJavaScriptKey)
        kakao.apiURL = try reader.url(.kakaoAPIURL) ?? kakao.apiURL
        kakao.authURL = try reader.url(.kakaoAuthURL) ?? kakao.authURL
        kakao.caCertificateFile = try reader.text(.kakaoCACertificateFile)
        kakao.pushVersion = try reader.choice(.kakaoPushVersion, PushVersion.self) ?? kakao.pushVersion
        let concurrent = try reader.integer(.kakaoMaxConcurrentRequests, in: 1...1000)
        kakao.maximumConcurrentRequests = concurrent ?? kakao.maximumConcurrentRequests
        kakao.requestsPerSecond = try reader.integer(.kakaoRequestsPerSecond, in: 1...100_000)
    }

    private mutating func readIdentity(_ reader: SettingsReader) throws {
        identity.acceptsKakaoAccessTokens = try reader.boolean(.identityKakaoAccessToken) ?? (kakao.appID != nil)
        guard !identity.acceptsKakaoAccessTokens || kakao.appID != nil else {
            throw reader.error(.identityKakaoAccessToken, "needs kakao.app_id: a token must belong to this app.")
        }
        identity.acceptsKakaoIDTokens = try reader.boolean(.identityKakaoIDToken) ?? !kakao.loginKeys.isEmpty
        guard !identity.acceptsKakaoIDTokens || !kakao.loginKeys.isEmpty else {
            throw reader.error(
                .identityKakaoIDToken,
                "needs kakao.native_app_key, kakao.rest_api_key or kakao.javascript_key: a token's audience is one of them."
            )
        }
        identity.backend = try Self.backend(reader, kakao)
    }

    private static func backend(_ reader: SettingsReader, _ kakao: Kakao) throws -> Identity.Backend? {
        let audience = try reader.text(.identityJWTAudience)
        let secret = try reader.secret(.identityJWTSecret, atLeast: 32)
        let url = try reader.url(.identityJWTKeysURL)
        let file = try reader.text(.identityJWTKeysFile)
        let keys: [Identity.Backend.Keys] = [
            secret.map { .secret($0) }, url.map { .url($0) }, file.map { .file($0) },
        ].compactMap(\.self)
        guard let issuer = try reader.text(.identityJWTIssuer) else {
            guard audience == nil, keys.isEmpty else {
                throw reader.error(.identityJWTIssuer, "is required with the other settings of identity.jwt.")
            }
            return nil
        }
        guard issuer != kakao.authURL else {
            throw reader.error(.identityJWTIssuer, "must not be Kakao's issuer: use identity.kakao_id_token.")
        }
        guard let audience else { throw reader.error(.identityJWTAudience, "is required with identity.jwt.issuer.") }
        guard let key = keys.first, keys.count == 1 else {
            throw reader.error(
                .identityJWTIssuer,
                "needs exactly one of identity.jwt.secret, identity.jwt.keys_url and identity.jwt.keys_file."
            )
        }
        return Identity.Backend(issuer: issuer, audience: audience, keys: key)
    }

    private static func isUnreserved(_ octet: UInt8) -> Bool {
        switch octet {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"): true
        default: false
        }
    }
}
