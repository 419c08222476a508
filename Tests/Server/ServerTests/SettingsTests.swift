import Callbacks
import Crypto
import Devices
import Glibc
import HTTPServer
import KakaoAPI
import LogOutput
import Logging
import Net
import Server
import ServiceTesting
import Settings
import TestSupport
import Testing

@testable import Identity
@testable import ServiceKit

/// Tests of reading settings: the file, the environment that overrides it, secrets from files, and errors.
struct SettingsTests {
    private static let required = [
        "DATABASE_URL": "postgres://push:database-password@localhost/push", "OPERATOR_KEY": Keys.operator,
        "KAKAO_ADMIN_KEY": Keys.admin,
    ]

    private static func read(
        _ environment: [String: String] = [:],
        yaml: String? = nil,
        without missing: String? = nil,
        files: [String: String] = [:]
    ) throws -> Settings {
        var variables = required.filter { $0.key != missing }
        variables.merge(environment) { $1 }
        return try Settings(environment: variables, yaml: yaml, path: "config/push-server.yaml") { path in
            guard let text = files[path] else { throw FileContents.Failure(code: ENOENT) }
            guard !text.isEmpty else { throw FileContents.Failure(code: EACCES) }
            return text
        }
    }

    /// Returns the error of invalid settings.
    private static func error(
        _ environment: [String: String] = [:],
        yaml: String? = nil,
        without missing: String? = nil,
        files: [String: String] = [:]
    ) -> SettingsError? {
        #expect(throws: SettingsError.self) {
            _ = try read(environment, yaml: yaml, without: missing, files: files)
        }
    }

    @Test("With only the required settings, every other setting has its default")
    func defaults() throws {
        let settings = try Self.read()
        #expect(settings.http.host == "127.0.0.1")
        #expect(settings.http.port == 8080)
        #expect(settings.http.maximumBodyBytes == 1 << 20)
        #expect(settings.http.headLimits.headerBytes == 16 * 1024)
        #expect(settings.http.headerTimeout == .seconds(10))
        #expect(settings.http.bodyTimeout == .seconds(30))
        #expect(settings.http.idleTimeout == .seconds(75))
        #expect(settings.http.maximumConnections == 10_000)
        #expect(settings.publicURL == nil)
        #expect(settings.migratesOnStart)
        #expect(settings.kakao.apiURL == "https://kapi.kakao.com")
        #expect(settings.kakao.authURL == "https://kauth.kakao.com")
        #expect(settings.kakao.pushVersion == .v1)
        #expect(settings.kakao.maximumConcurrentRequests == 32)
        #expect(settings.kakao.requestsPerSecond == nil)
        #expect(settings.identity.feedbackSecret == nil)
        #expect(settings.devices.pruneAfterFailures == 3)
        #expect(settings.journal.directory == nil)
        #expect(settings.journal.maximumBytes == 1 << 30)
        #expect(settings.devices.renewDaysBeforeExpiry == 7)
        #expect(settings.devices.activeWithinDays == 90)
        #expect(settings.devices.tokenLifetimeDays == 30)
        #expect(settings.identity.requestsPerMinutePerUser == 60)
        #expect(settings.identity.requestsPerMinutePerAddress == 600)
        #expect(settings.callbacks.userIDArgument == nil)
        #expect(settings.logLevel == .info)
        #expect(settings.logFormat == .text)
    }

    @Test(
        "A secret of Kakao's that is too short to be masked in error texts is invalid",
        arguments: ["KAKAO_ADMIN_KEY", "KAKAO_ADMIN_KEY_NEXT", "KAKAO_CLIENT_SECRET"]
    )
    func shortSecrets(name: String) throws {
        #expect(Self.error([name: "1234567"])?.message.contains("at least 8 characters") == true)
        _ = try Self.read([name: "12345678"])
    }

    @Test("Access tokens require the app id, and are accepted with it unless switched off")
    func accessTokens() throws {
        #expect(try !Self.read().identity.acceptsKakaoAccessTokens)
        #expect(try Self.read(["KAKAO_APP_ID": "5"]).identity.acceptsKakaoAccessTokens)
        let off = try Self.read(["KAKAO_APP_ID": "5", "IDENTITY_KAKAO_ACCESS_TOKEN": "false"])
        #expect(!off.identity.acceptsKakaoAccessTokens)
        let error = Self.error(["IDENTITY_KAKAO_ACCESS_TOKEN": "true"])
        #expect(error?.message.contains("needs kakao.app_id") == true)
        #expect(Self.error(["KAKAO_APP_ID": "five"])?.message.contains("kakao.app_id") == true)
    }

    @Test("ID tokens require one of the app's keys, and are accepted with it unless switched off")
    func idTokens() throws {
        #expect(try !Self.read(["KAKAO_APP_ID": "5"]).identity.acceptsKakaoIDTokens)
        for key in ["KAKAO_REST_API_KEY", "KAKAO_NATIVE_APP_KEY", "KAKAO_JAVASCRIPT_KEY"] {
            #expect(try Self.read([key: "key"]).identity.acceptsKakaoIDTokens)
            #expect(try !Self.read([key: "key", "IDENTITY_KAKAO_ID_TOKEN": "false"]).identity.acceptsKakaoIDTokens)
        }
        #expect(Self.error(["IDENTITY_KAKAO_ID_TOKEN": "true"])?.message.contains("kakao.native_app_key") == true)
    }

    @Test("A backend's tokens require an issuer, an audience and exactly one source of keys")
    func backendTokens() throws {
        let secret = "secret-of-the-backend-of-the-tests-0123"
        let names = ["IDENTITY_JWT_ISSUER": "https://api.example.com", "IDENTITY_JWT_AUDIENCE": "push"]
        #expect(try Self.read().identity.backend == nil)
        let keys = [
            "IDENTITY_JWT_SECRET": secret, "IDENTITY_JWT_KEYS_URL": "https://api.example.com/keys",
            "IDENTITY_JWT_KEYS_FILE": "/keys.json",
        ]
        for (name, value) in keys {
            let backend = try Self.read(names.merging([name: value]) { $1 }).identity.backend
            #expect(backend?.issuer == "https://api.example.com")
            #expect(backend?.audience == "push")
            #expect(Self.error([name: value])?.message.contains("identity.jwt.issuer is required") == true)
        }
        #expect(Self.error(names)?.message.contains("needs exactly one of") == true)
        #expect(Self.error(names.merging(keys) { $1 })?.message.contains("needs exactly one of") == true)
        let short = Self.error(names.merging(["IDENTITY_JWT_SECRET": "short"]) { $1 })
        #expect(short?.message.contains("at least 32") == true)
        let nobody = Self.error(["IDENTITY_JWT_ISSUER": "https://api.example.com", "IDENTITY_JWT_SECRET": secret])
        #expect(nobody?.message.contains("identity.jwt.audience") == true)
        let kakao = names.merging(["IDENTITY_JWT_ISSUER": "https://kauth.kakao.com", "IDENTITY_JWT_SECRET": secret]) {
            $1
        }
        #expect(Self.error(kakao)?.message.contains("must not be Kakao's") == true)
    }

    @Test("Settings are read from the environment")
    func environment() throws {
        let settings = try Self.read([
            "HTTP_HOST": "::1", "HTTP_PORT": "1", "HTTP_PUBLIC_URL": "https://push.example.com/",
            "HTTP_TLS_CERTIFICATE_FILE": "/c.pem", "HTTP_TLS_PRIVATE_KEY_FILE": "/k.pem",
            "HTTP_MAX_BODY_BYTES": "2048", "HTTP_MAX_HEADER_BYTES": "4096", "HTTP_HEADER_TIMEOUT_SECONDS": "1",
            "HTTP_BODY_TIMEOUT_SECONDS": "2", "HTTP_IDLE_TIMEOUT_SECONDS": "3", "HTTP_MAX_CONNECTIONS": "4",
            "DATABASE_MIGRATE": "false", "KAKAO_APP_ID": "5", "KAKAO_REST_API_KEY": "rest",
            "KAKAO_NATIVE_APP_KEY": "native", "KAKAO_API_URL": "http://127.0.0.1:9",
            "KAKAO_AUTH_URL": "http://[::1]:9/",
            "KAKAO_CA_CERTIFICATE_FILE": "/ca.pem", "KAKAO_PUSH_VERSION": "v2", "KAKAO_MAX_CONCURRENT_REQUESTS": "6",
            "KAKAO_REQUESTS_PER_SECOND": "7", "FEEDBACK_SECRET": Keys.feedback, "DEVICES_PRUNE_AFTER_FAILURES": "8",
            "JOURNAL_DIRECTORY": "/var/journal", "JOURNAL_MAX_BYTES": "1048576",
            "DEVICES_RENEW_DAYS_BEFORE_EXPIRY": "9", "DEVICES_ACTIVE_WITHIN_DAYS": "10",
            "DEVICES_TOKEN_LIFETIME_DAYS": "20",
            "DEVICES_REQUESTS_PER_MINUTE_PER_USER": "11", "DEVICES_REQUESTS_PER_MINUTE_PER_ADDRESS": "0",
            "HTTP_TRUSTED_PROXIES": "10.0.0.0/8, ::1", "CALLBACKS_USER_ID_ARGUMENT": "member", "LOG_LEVEL": "debug",
            "LOG_FORMAT": "json",
        ])
        #expect(settings.http.host == "::1")
        #expect(settings.http.port == 1)
        guard case .given("https://push.example.com") = settings.publicURL else {
            Issue.record("\(String(describing: settings.publicURL))")
            return
        }
        #expect(settings.certificateFile == "/c.pem")
        #expect(settings.privateKeyFile == "/k.pem")
        #expect(settings.http.maximumBodyBytes == 2048)
        #expect(settings.http.headLimits.headerBytes == 4096)
        #expect(settings.http.headerTimeout == .seconds(1))
        #expect(settings.http.bodyTimeout == .seconds(2))
        #expect(settings.http.idleTimeout == .seconds(3))
        #expect(settings.http.maximumConnections == 4)
        #expect(!settings.migratesOnStart)
        #expect(settings.databaseURL.revealed == "postgres://push:database-password@localhost/push")
        #expect(settings.identity.operatorKey.revealed == Keys.operator)
        #expect(settings.kakao.adminKey.revealed == Keys.admin)
        #expect(settings.kakao.appID == 5)
        #expect(settings.kakao.restAPIKey == "rest")
        #expect(settings.kakao.nativeAppKey == "native")
        #expect(settings.kakao.apiURL == "http://127.0.0.1:9")
        #expect(settings.kakao.authURL == "http://[::1]:9")
        #expect(settings.kakao.caCertificateFile == "/ca.pem")
        #expect(settings.kakao.pushVersion == .v2)
        #expect(settings.kakao.maximumConcurrentRequests == 6)
        #expect(settings.kakao.requestsPerSecond == 7)
        #expect(settings.identity.feedbackSecret?.revealed == Keys.feedback)
        #expect(settings.devices.pruneAfterFailures == 8)
        #expect(settings.journal.directory == "/var/journal")
        #expect(settings.journal.maximumBytes == 1 << 20)
        #expect(settings.devices.renewDaysBeforeExpiry == 9)
        #expect(settings.devices.activeWithinDays == 10)
        #expect(settings.devices.tokenLifetimeDays == 20)
        #expect(settings.identity.requestsPerMinutePerUser == 11)
        #expect(settings.identity.requestsPerMinutePerAddress == nil)
        #expect(settings.http.trustedProxies !== TrustedProxies.none)
        #expect(settings.callbacks.userIDArgument == "member")
        #expect(settings.logLevel == .debug)
        #expect(settings.logFormat == .json)
    }

    @Test("The port for operators has a host only with a port, and the port is another one")
    func operatorPort() throws {
        #expect(try Self.read().operatorPort == nil)
        let settings = try Self.read(["HTTP_OPERATOR_PORT": "8081", "HTTP_OPERATOR_HOST": "10.0.0.1"])
        #expect(settings.operatorPort == 8081)
        #expect(settings.operatorHost == "10.0.0.1")
        let host = Self.error(["HTTP_OPERATOR_HOST": "10.0.0.1"])
        #expect(host?.place == "HTTP_OPERATOR_HOST in the environment")
        #expect(host?.message == "http.operator_host needs http.operator_port.")
        #expect(Self.error(["HTTP_OPERATOR_PORT": "8080"])?.message == "http.operator_port must not be http.port.")
    }

    @Test("The environment overrides the file, and an empty variable counts as unset")
    func precedence() throws {
        let yaml = "http:\n  port: 1111\n  host: 0.0.0.0\nlog.level: error\n"
        let settings = try Self.read(["HTTP_PORT": "2222", "HTTP_HOST": ""], yaml: yaml)
        #expect(settings.http.port == 2222)
        #expect(settings.http.host == "0.0.0.0")
        #expect(settings.logLevel == .error)
    }

    @Test(
        "An empty file, or one in which everything is commented out, sets nothing",
        arguments: ["", "# a\n", "http:\n"]
    )
    func emptyFile(yaml: String) throws {
        #expect(try Self.read(yaml: yaml).http.port == 8080)
    }

    @Test("A secret may come from a file that the environment or the settings file names")
    func secretFiles() throws {
        let files = ["/run/key": Keys.operator + "\n", "/run/url": "postgres://other/\r\n"]
        let fromEnvironment = try Self.read(["OPERATOR_KEY_FILE": "/run/key"], without: "OPERATOR_KEY", files: files)
        #expect(fromEnvironment.identity.operatorKey.revealed == Keys.operator)
        let fromFile = try Self.read(
            yaml: "database:\n  url_file: /run/url\n",
            without: "DATABASE_URL",
            files: files
        )
        #expect(fromFile.databaseURL.revealed == "postgres://other/")

        let unreadable = Self.error(["OPERATOR_KEY_FILE": "/run/none"], without: "OPERATOR_KEY", files: files)
        #expect(unreadable?.place == "OPERATOR_KEY_FILE in the environment")
        #expect(unreadable?.message.contains("/run/none") == true)
        // Only a secret may come from a file.
        #expect(Self.error(yaml: "http:\n  host_file: /run/key\n")?.place == "config/push-server.yaml:2")
    }

    @Test("A secret that is set nowhere else is a credential of systemd")
    func credentials() throws {
        let directory = "/run/credentials/push-server.service"
        let path = "\(directory)/push-server_operator.key"
        let environment = ["CREDENTIALS_DIRECTORY": directory]
        let other = String(repeating: "o", count: 32)
        let files = [path: "\(other)\n"]
        let read = try Self.read(environment, without: "OPERATOR_KEY", files: files)
        #expect(read.identity.operatorKey.revealed == other)
        #expect(read.secretFiles.contains(path))
        #expect(try Self.read(environment, files: files).identity.operatorKey.revealed == Keys.operator)
        let short = Self.error(environment, without: "OPERATOR_KEY", files: [path: "short"])
        #expect(short?.place == path)
        let missing = Self.error(environment, without: "OPERATOR_KEY")
        #expect(missing?.message == "operator.key is required.")
        let closed = Self.error(environment, files: ["\(directory)/push-server_feedback.secret": ""])
        #expect(closed?.message.hasSuffix("for feedback.secret cannot be read: Permission denied.") == true)
    }

    @Test(
        "The error of a missing required setting names the setting and its environment variable",
        arguments: [
            ("DATABASE_URL", "database.url"), ("OPERATOR_KEY", "operator.key"), ("KAKAO_ADMIN_KEY", "kakao.admin_key"),
        ]
    )
    func missing(variable: String, name: String) throws {
        let error = try #require(Self.error(without: variable))
        #expect(error.description.contains(variable))
        #expect(error.description.contains(name))
        #expect(error.message.contains("required"))
    }

    @Test(
        "An error in the file is reported with its line",
        arguments: [
            ("http:\n  port: 8080\n  prot: 8081\n", 3, "http.prot"),
            ("# a\n\nhtpp:\n  port: 1\n", 3, "htpp"),
            ("http:\n  tls:\n    certificate: a\n", 3, "http.tls.certificate"),
            ("log:\n  level: loud\n", 2, "log.level"),
            ("http:\n  host: [a, b]\n", 2, "http.host"),
            ("http:\n  host:\n    a: b\n", 2, "http.host"),
            ("http: 8080\n", 1, "http"),
            ("http:\n  - port\n", 2, "http"),
            ("http:\n  port: 0x50\n", 2, "http.port"),
            ("kakao:\n  push_version: 2\n", 2, "kakao.push_version"),
            ("http:\n  public_url: push.example.com\n", 2, "http.public_url"),
        ]
    )
    func mistake(yaml: String, line: Int, name: String) throws {
        let error = try #require(Self.error(yaml: yaml))
        #expect(error.place == "config/push-server.yaml:\(line)")
        #expect(error.message.contains(name))
    }

    @Test(
        "Invalid YAML is reported with its line and never quoted, since it may contain a secret",
        arguments: [
            "operator:\n  key: \"\(Keys.operator)\n", "operator:\n  key: [\(Keys.operator)\n",
            "operator:\n\tkey: \(Keys.operator)\n", "operator:\n  key: \(Keys.operator)\n  key: \(Keys.operator)\n",
            "operator:\n  key: \(Keys.operator): \(Keys.operator)\n",
        ]
    )
    func notYAML(yaml: String) throws {
        let error = try #require(Self.error(yaml: yaml))
        #expect(error.place.hasPrefix("config/push-server.yaml:"))
        #expect(!error.description.contains(Keys.operator))
    }

    @Test(
        "A duplicate setting, an alias, a file that is not a mapping and a second document are rejected",
        arguments: [
            ("http:\n  port: 1\n  port: 2\n", 3, "http.port is given twice"),
            ("http:\n  port: 1\nhttp:\n  host: ::1\n", 3, "http is given twice"),
            ("http.port: 1\nhttp:\n  port: 2\n", 3, "http.port is given twice"),
            ("http:\n  host: &a ::1\n  port: *a\n", 3, "http.port must be written out"),
            ("http: &a\n  tls: *a\n", 2, "http.tls must be written out"),
            ("*a : 1\n", 1, "name of a setting"),
            ("? [a, b]\n: 1\n", 1, "name of a setting"),
            ("http:\n  <<: {port: 1}\n", 2, "http.<<"),
            ("a document\n", 1, "The file must be a mapping"),
            ("# a list\n- port\n", 2, "The file must be a mapping"),
            ("http:\n  port: 1\n---\nhttp:\n  port: 2\n", 3, "single document"),
        ]
    )
    func structure(yaml: String, line: Int, message: String) throws {
        let error = try #require(Self.error(yaml: yaml))
        #expect(error.place == "config/push-server.yaml:\(line)")
        #expect(error.message.contains(message))
    }

    @Test(
        "All styles of YAML are accepted",
        arguments: [
            "http: {port: 1111}", "%YAML 1.1\n---\nhttp:\n  port: 1111\n...\n", "\u{FEFF}http:\n  port: '1111'\n",
            "\"http\":\r\n  ? port\r\n  : !!str \"11\\x311\"\r\n", "http: &a\n  port: >-\n    1111\n",
            "http.port: 1111",
        ]
    )
    func otherYAML(yaml: String) throws {
        #expect(try Self.read(yaml: yaml).http.port == 1111)
    }

    @Test("A NUL is rejected, whether literal or escaped")
    func nul() throws {
        let raw = try #require(Self.error(yaml: "http:\n  # ten\n  host: a\u{0}b\n"))
        #expect(raw.place == "config/push-server.yaml:3")
        #expect(raw.message == "Invalid YAML: control characters are not allowed.")
        let escaped = try #require(Self.error(yaml: "http:\n  host: \"a\\0b\"\n"))
        #expect(
            escaped == SettingsError(place: "config/push-server.yaml:2", message: "http.host must not contain a NUL.")
        )
    }

    @Test(
        "A deeply nested file is rejected where it stops being settings",
        arguments: ["[", "{", "- ", "? ", "{a: ", "[{", "&a [", "!!seq ["]
    )
    func depth(opening: String) throws {
        let nested = String(repeating: opening, count: 100_000)
        #expect(Self.error(yaml: nested)?.place == "config/push-server.yaml:1")
        #expect(Self.error(yaml: "http:\n  tls:\n    " + nested)?.place == "config/push-server.yaml:3")
    }

    @Test("A file of arbitrary bytes gives settings or an error with its line")
    func anyBytes() throws {
        let valid = "http: &a\n  port: 1 # one\n  host: \"::1\"\nlog: {level: 'info'}\nfeedback.secret_file: |\n  a\n"
        var random = SplitMix64(seed: 77)
        for round in 0..<3000 {
            // Either random bytes alone, or a valid file with some random bytes in it.
            var text = round.isMultiple(of: 2) ? Array(valid.utf8) : random.bytes(upTo: 40)
            for _ in 0..<Int.random(in: 0...6, using: &random) {
                let place = Int.random(in: 0...text.count, using: &random)
                text.replaceSubrange(place..<min(place + 1, text.count), with: random.bytes(upTo: 2))
            }
            do {
                _ = try Self.read(yaml: String(decoding: text, as: UTF8.self))
            } catch let error as SettingsError where error.place.hasPrefix("config/") {
                #expect(
                    error.place.wholeMatch(of: #/config/push-server\.yaml:[1-9][0-9]*/#) != nil,
                    "\(error), \(text)"
                )
            } catch let error as SettingsError {
                Issue.record("\(error), \(text)")
            }
        }
    }

    @Test(
        "The error of an invalid value names its place, and never quotes a secret",
        arguments: [
            ("HTTP_PORT", "65536"), ("HTTP_PORT", "-1"), ("HTTP_PORT", "+80"), ("HTTP_PORT", "80 "),
            ("HTTP_MAX_BODY_BYTES", "1"), ("HTTP_MAX_HEADER_BYTES", "99999999"), ("HTTP_IDLE_TIMEOUT_SECONDS", "0"),
            ("HTTP_MAX_CONNECTIONS", "0"), ("HTTP_PUBLIC_URL", "ftp://a"), ("HTTP_PUBLIC_URL", "https://"),
            ("KAKAO_API_URL", "https://a b"), ("DATABASE_MIGRATE", "maybe"), ("KAKAO_PUSH_VERSION", "v3"),
            ("KAKAO_MAX_CONCURRENT_REQUESTS", "0"), ("KAKAO_REQUESTS_PER_SECOND", "x"), ("LOG_LEVEL", "INFO"),
            ("LOG_FORMAT", "xml"), ("DEVICES_PRUNE_AFTER_FAILURES", "0"), ("JOURNAL_MAX_BYTES", "1048575"),
            ("FEEDBACK_SECRET", "too-short"),
            ("HTTP_TRUSTED_PROXIES", "10.0.0.0/33"), ("HTTP_TRUSTED_PROXIES", "proxy.example.com"),
            ("DEVICES_REQUESTS_PER_MINUTE_PER_USER", "-1"), ("DEVICES_REQUESTS_PER_MINUTE_PER_ADDRESS", "none"),
            ("FEEDBACK_SECRET", "sixteen/letters/or/more"), ("OPERATOR_KEY", "31-characters-are-one-too-few-x"),
            ("OPERATOR_KEY", "a key with spaces in it 0123456789 0123456789"),
        ]
    )
    func wrongValue(variable: String, value: String) throws {
        let error = try #require(Self.error([variable: value]))
        #expect(error.place == "\(variable) in the environment")
        if ["FEEDBACK_SECRET", "OPERATOR_KEY"].contains(variable) { #expect(!error.description.contains(value)) }
    }

    @Test("Users have Kakao's ids if Kakao names them, and own ids contradict Kakao's tokens")
    func userIDs() throws {
        #expect(try Self.read().identity.userIDs == .own)
        #expect(try Self.read(["KAKAO_APP_ID": "1"]).identity.userIDs == .kakao)
        #expect(try Self.read(["KAKAO_REST_API_KEY": "key"]).identity.userIDs == .kakao)
        #expect(try Self.read(["DEVICES_USER_IDS": "kakao"]).identity.userIDs == .kakao)
        let own = ["KAKAO_APP_ID": "1", "DEVICES_USER_IDS": "own"]
        #expect(try Self.read(own.merging(["IDENTITY_KAKAO_ACCESS_TOKEN": "false"]) { $1 }).identity.userIDs == .own)
        #expect(Self.error(own)?.place == "DEVICES_USER_IDS in the environment")
    }

    @Test("The limit of open files leaves clients what the server does not need itself, or a quarter, at each port")
    func openFiles() throws {
        var settings = try Self.read(["HTTP_MAX_CONNECTIONS": "1000"])
        let needed = settings.openFiles(loopCount: 2).needed
        let others = needed - 1000
        func allowed(_ limit: Int) -> (connections: Int, isShort: Bool) {
            let files = settings.openFiles(loopCount: 2)
            return (files.connections(limit: limit), limit < files.needed)
        }
        #expect(allowed(.max) == (1000, false))
        #expect(allowed(needed) == (1000, false))
        #expect(allowed(needed - 1) == (999, true))
        #expect(allowed(others) == (others / 4, true))
        #expect(allowed(0) == (1, true))
        settings.operatorPort = 0
        #expect(settings.openFiles(loopCount: 2).needed == needed + 1000 + 2)
        #expect(allowed(needed + 1002) == (1000, false))
        #expect(allowed(needed) == (499, true))
        #expect(settings.openFiles(loopCount: 3).needed > settings.openFiles(loopCount: 2).needed)
    }

    @Test("A certificate without its private key is rejected, and a private key without its certificate")
    func halfTLS() throws {
        #expect(Self.error(["HTTP_TLS_CERTIFICATE_FILE": "/c"])?.message.contains("private_key_file") == true)
        #expect(Self.error(["HTTP_TLS_PRIVATE_KEY_FILE": "/k"])?.message.contains("certificate_file") == true)
    }

    @Test("Printing settings never reveals a secret")
    func masked() throws {
        let settings = try Self.read(["FEEDBACK_SECRET": Keys.feedback])
        var dumped = ""
        dump(settings, to: &dumped)
        let texts = [
            dumped, "\(settings)", String(reflecting: settings), String(describing: settings.identity.operatorKey),
        ]
        for text in texts {
            for secret in [Keys.operator, Keys.admin, Keys.feedback, "database-password"] {
                #expect(!text.contains(secret))
            }
        }
        #expect("\(settings.identity.operatorKey)" == "***")
    }

    @Test("A secret matches only itself")
    func matching() {
        let secret = Secret(Keys.operator)
        #expect(secret.matches(Keys.operator))
        for other in ["", String(Keys.operator.dropLast()), Keys.operator + "x", Keys.operator.uppercased()] {
            #expect(!secret.matches(other))
        }
    }
}

extension SplitMix64 {
    fileprivate mutating func bytes(upTo count: Int) -> [UInt8] {
        (0..<Int.random(in: 0...count, using: &self)).map { _ in UInt8.random(in: .min ... .max, using: &self) }
    }
}
