package import HTTPServer
package import Journal
package import KakaoAPI
package import LogOutput
package import Logging

/// What the server was told to do: `docs/settings.md` has the table.
package struct Settings: Sendable {
    package var http = HTTPServerSettings()
    package var certificateFile: String?
    package var privateKeyFile: String?
    package var publicURL: PublicURL?
    /// How PostgreSQL is reached.
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
    package var activeWithinDays = 90
    /// Requests of each user's apps to the device endpoints; `nil` for no limit.
    package var requestsPerMinutePerUser: Int? = 60
    /// The same from each address.
    package var requestsPerMinutePerAddress: Int? = 600
    package var journal = Journal()
    package var logLevel = Logger.Level.info
    package var logFormat = LogFormat.text

    /// Where Kakao reaches the server.
    package enum PublicURL: Sendable {
        case given(String)
        /// At the address it listens on: for a sandbox on the same machine.
        case own
    }

    /// Where calls from Kakao are kept while PostgreSQL does not answer.
    package struct Journal: Sendable {
        /// `nil` for no journal.
        package var directory: String?
        package var maximumBytes = 1 << 30
        /// Tests put disks that fail in its place.
        package var fileOperations = FileOperations.system
    }

    /// What concerns Kakao.
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

        /// The keys that a user may have logged in with: what an ID token is for, and an account event.
        var loginKeys: Set<String> { Set([restAPIKey, nativeAppKey, javaScriptKey].compactMap(\.self)) }

        /// Where Kakao publishes the keys that it signs ID tokens with.
        var keysURL: String { authURL + "/.well-known/jwks.json" }

        /// Where Kakao's REST API is, and as whom to call it.
        var api: KakaoAPISettings {
            KakaoAPISettings(apiURL: apiURL, adminKey: AdminKey(adminKey.revealed), pushVersion: pushVersion)
        }
    }

    /// Which tokens users' apps may call with.
    package struct Identity: Sendable {
        /// Needs ``Kakao/appID``.
        package var acceptsKakaoAccessTokens = false
        /// Needs one of the app's keys.
        package var acceptsKakaoIDTokens = false
        /// The service's own backend, if its tokens are accepted.
        package var backend: Backend?
        /// The least time between two fetches of an issuer's keys.
        package var keyFetchInterval = Duration.seconds(60)
        /// The time after which an issuer's keys are fetched again, so that a withdrawn one is not trusted for longer.
        package var keyRefreshInterval = Duration.seconds(3600)

        /// Who issues JSON Web Tokens for the service's users.
        package struct Backend: Sendable {
            package var issuer: String
            package var audience: String
            package var keys: Keys

            /// What its tokens are verified with.
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

            /// Whether it signs with a shared secret.
            var isSecret: Bool {
                guard case .secret = keys else { return false }
                return true
            }
        }
    }

    /// The settings that cannot be done without; everything else has its default.
    package init(databaseURL: Secret, operatorKey: Secret, adminKey: Secret) {
        self.databaseURL = databaseURL
        self.operatorKey = operatorKey
        kakao = Kakao(adminKey: adminKey)
        http.port = 8080
        http.maximumConnectionsPerAddress = 1000
    }

    /// Where this machine reaches the server: the address that it listens on, or the loopback address for one that stands for all.
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
    ///   - yaml: The text of `config/push-server.yaml`, if there is one.
    ///   - path: The name of that file, for messages.
    ///   - readFile: Reads a file that holds a secret.
    /// - Throws: ``SettingsError`` for the first setting that is missing, unknown or wrong.
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
            throw reader.error(.feedbackSecret, "must be of letters, digits, - and _ only: it is part of an address.")
        }
        userIDArgument = try reader.text(.callbacksUserIDArgument)
        pushRetentionDays = try reader.integer(.pushesRetentionDays, in: 1...3650) ?? pushRetentionDays
        pruneAfterFailures = try reader.integer(.devicesPruneAfterFailures, in: 1...1000) ?? pruneAfterFailures
        renewDaysBeforeExpiry = try reader.integer(.devicesRenewDaysBeforeExpiry, in: 1...365) ?? renewDaysBeforeExpiry
        activeWithinDays = try reader.integer(.devicesActiveWithinDays, in: 1...3650) ?? activeWithinDays
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
            throw reader.error(missing, "is required: a certificate and its key go together.")
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
                    "must be addresses and networks with commas between them: 127.0.0.1, 10.0.0.0/8, 2001:db8::/32."
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
            throw reader.error(.identityKakaoAccessToken, "needs kakao.app_id: a token must be of this app.")
        }
        identity.acceptsKakaoIDTokens = try reader.boolean(.identityKakaoIDToken) ?? !kakao.loginKeys.isEmpty
        guard !identity.acceptsKakaoIDTokens || !kakao.loginKeys.isEmpty else {
            throw reader.error(
                .identityKakaoIDToken,
                "needs kakao.native_app_key, kakao.rest_api_key or kakao.javascript_key: a token must be for one of them."
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
                throw reader.error(.identityJWTIssuer, "is required: the other settings of identity.jwt go with it.")
            }
            return nil
        }
        guard issuer != kakao.authURL else {
            throw reader.error(.identityJWTIssuer, "must not be Kakao's: that is identity.kakao_id_token.")
        }
        guard let audience else { throw reader.error(.identityJWTAudience, "is required with identity.jwt.issuer.") }
        guard let key = keys.first, keys.count == 1 else {
            throw reader.error(
                .identityJWTIssuer,
                "needs one of identity.jwt.secret, identity.jwt.keys_url and identity.jwt.keys_file, and no more."
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
