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
    var givenPublicURL: String?
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
    var givenUserIDs: UserIDs?
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
        var given = Given()
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
        self = .initial
        for setting in Self.declarations { try setting.read(reader, &self) }
        try validate(reader)
    }

    /// The defaults, without the settings that every server needs.
    static let initial = Settings(databaseURL: Secret(""), operatorKey: Secret(""), adminKey: Secret(""))
}
