package import Accounts
package import Callbacks
package import Channels
package import Crypto
package import Devices
package import HTTPServer
package import Identity
package import KakaoRelay
package import LogOutput
package import Logging
package import Messages
import Net
package import OperatorPage
import Postgres
package import Pushes
import Runtime
package import Settings
package import Sharing
package import Status
package import Webhooks

/// The settings of a server. `docs/settings.md` has a table of them.
package struct Settings: SettingsGroup {
    package var http = HTTPServerSettings()
    /// The port for operators; `nil` if operators use the other port.
    package var operatorPort: Int?
    /// The address of that port; `nil` for that of the other port.
    package var operatorHost: String?
    /// The time for which the server goes on serving when it is asked to stop, so that balancers notice.
    package var drainTime = Duration.seconds(5)
    package var certificateFile: String?
    package var privateKeyFile: String?
    package var publicURL: PublicURL?
    var givenPublicURL: String?
    /// The URL of the PostgreSQL database.
    package var databaseURL = Secret("")
    /// The URL of a replica of it, for reads that decide nothing; `nil` if there is none.
    package var replicaURL: Secret?
    /// The lag from which on the replica is not read. Tests change it.
    package var maximumReplicaLag = ReplicaHealth.defaultMaximumLag
    /// The time limit of a statement, and of the wait for a connection. Tests lengthen it.
    package var databaseTimeout = Duration.seconds(5)
    package var migratesOnStart = true
    /// The maximum number of connections to PostgreSQL, which the loops share.
    package var maximumDatabaseConnections = ConnectionPlan.defaultMaximum
    /// The number of event loops; `nil` for that of the processors.
    package var loops: Int?
    package var kakao = KakaoSettings()
    package var identity = IdentitySettings()
    package var callbacks = CallbackSettings()
    package var channels = ChannelSettings()
    package var pushes = PushSettings()
    package var devices = DeviceSettings()
    package var sharing = SharingSettings()
    package var messages = MessageSettings()
    package var audit = AuditSettings()
    package var accounts = AccountSettings()
    package var relay = RelaySettings()
    package var webhooks = WebhookSettings()
    package var page = OperatorPageSettings()
    package var journal = JournalSettings()
    package var logLevel = Logger.Level.info
    package var logFormat = LogFormat.text
    /// The files from which secrets were read.
    package private(set) var secretFiles: [String] = []

    /// The URL at which Kakao reaches the server.
    package enum PublicURL: Sendable {
        case given(String)
        /// The port that the server listens on, at a host as it is written in a URL: for a sandbox.
        case own(host: String)
    }

    /// The defaults, without the settings that every server needs.
    package init() {
        http.port = 8080
        http.maximumConnectionsPerAddress = 1000
    }

    /// Creates settings from the required ones, with the defaults for all others.
    package init(databaseURL: Secret, operatorKey: Secret, adminKey: Secret) {
        self.init()
        self.databaseURL = databaseURL
        identity.operatorKey = operatorKey
        kakao.adminKey = adminKey
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
        let file = try yaml.map { try SettingsFile(yaml: $0, path: path, names: SettingNames(Self.all)) }
        let reader = SettingsReader(
            environment: environment,
            file: file,
            credentials: yaml.flatMap { _ in Self.credentials(besideFile: path) },
            readFile: readFile
        )
        self.init()
        for setting in Self.all {
            try setting.read(reader, &self)
            for file in try reader.secretFiles(of: setting) where !secretFiles.contains(file) {
                secretFiles.append(file)
            }
        }
        try validate(reader)
    }

    /// Returns the folder beside a settings file whose files have the names of secrets: `push-server.credentials` for
    /// `push-server.yaml`; `nil` for a file of another name.
    package static func credentials(besideFile path: String) -> String? {
        path.hasSuffix(".yaml") ? "\(path.dropLast(".yaml".count)).credentials" : nil
    }

    /// Checks the rules between settings, and sets the defaults that depend on others.
    private mutating func validate(_ reader: SettingsReader) throws {
        publicURL = givenPublicURL.map { .given($0) }
        for (name, url) in [("database.url", databaseURL), ("database.read_url", replicaURL)] {
            guard let url else { continue }
            do throws(PostgresError) {
                _ = try PostgresSettings(url: url.revealed)
            } catch {
                throw reader.error(name, "is invalid: \(error.words).")
            }
        }
        guard (certificateFile == nil) == (privateKeyFile == nil) else {
            let missing = certificateFile == nil ? "http.tls.certificate_file" : "http.tls.private_key_file"
            throw reader.error(missing, "is required: set the certificate and its private key together.")
        }
        guard operatorHost == nil || operatorPort != nil else {
            throw reader.error("http.operator_host", "needs http.operator_port.")
        }
        guard http.port == 0 || operatorPort != http.port else {
            throw reader.error("http.operator_port", "must not be http.port.")
        }
        try identity.validate(reader, kakao)
        for feature in featureDeclarations { try feature.validate(reader, &self) }
        try callbacks.validate(reader, sharing)
        try channels.validate(reader, hasKakaoUserIDs: identity.userIDs == .kakao)
    }
}

// MARK: Declarations

extension Settings {
    /// All settings, in the order of the documents. Those of a section stand in one file, and follow each other.
    static let all: [Setting<Settings>] = [
        settings,
        KakaoSettings.settings.map { $0.of(\.kakao) },
        IdentitySettings.settings.map { $0.of(\.identity) },
        featureDeclarations.flatMap(\.settings),
        JournalSettings.settings.map { $0.of(\.journal) },
        log,
    ].flatMap(\.self)

    /// The environment variables of all settings, with those that name the files of secrets.
    package static var environmentNames: [String] {
        all.flatMap { [$0.environmentName] + ($0.isSecret ? ["\($0.environmentName)_FILE"] : []) }
    }

    package static let settings: [Setting<Settings>] = [
        Setting(
            "server.loops",
            \.loops,
            optional: .integer(1...1024),
            default: "the number of processors that the server may use",
            "event loops, each a thread. The processors are those of its affinity, or the CPU quota of its container or service if that is less, rounded up"
        ),
        Setting("http.host", \.http.host, .text, "the numeric address to listen on"),
        Setting("http.port", \.http.port, .port, "the port; 0 for any free port"),
        Setting(
            "http.operator_port",
            \.operatorPort,
            optional: .port,
            example: "8081",
            "a second port, for operators: it answers everything, and `http.port` then answers only what Kakao and apps call, and accepts no operator key ([two ports](#two-ports))"
        ),
        Setting(
            "http.operator_host",
            \.operatorHost,
            optional: .text,
            default: "that of `http.host`",
            example: "127.0.0.1",
            "the numeric address to listen on for operators"
        ),
        Setting(
            "http.drain_seconds",
            \.drainTime,
            .seconds(0...300),
            "how long the server goes on serving after SIGTERM, with `/readyz` 503 and `Connection: close`, until its proxy or balancer has noticed ([restarts](proxies.md#restarts))"
        ),
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
            reloadable: true,
            "the maximum size of a request body; beyond it 413. Requests of phones and Kakao are limited to 64 KiB ([limits](http.md#limits))"
        ),
        Setting(
            "http.max_header_bytes",
            \.http.headLimits.headerBytes,
            .bytes(1024...1 << 20),
            reloadable: true,
            "the maximum size of a request head; beyond it 431"
        ),
        Setting(
            "http.header_timeout_seconds",
            \.http.headerTimeout,
            .seconds,
            reloadable: true,
            "time limit from the first byte of a request to its last header"
        ),
        Setting(
            "http.body_timeout_seconds",
            \.http.bodyTimeout,
            .seconds,
            reloadable: true,
            "time limit for receiving a body, and for the peer to read a response; extended by the same time for a peer that keeps up `http.min_bytes_per_second`"
        ),
        Setting(
            "http.min_bytes_per_second",
            \.http.minimumBytesPerSecond,
            .integer(1...1_000_000),
            reloadable: true,
            "the minimum average rate over that time at which a peer must send a body or read a response"
        ),
        Setting(
            "http.idle_timeout_seconds",
            \.http.idleTimeout,
            .seconds,
            reloadable: true,
            "time limit between two requests on a connection"
        ),
        Setting(
            "http.max_connections",
            \.http.maximumConnections,
            .integer(1...1_000_000),
            reloadable: true,
            "concurrent connections; for a further one, the connection that has been idle longest is closed, or it waits"
        ),
        Setting(
            "http.max_connections_per_address",
            \.http.maximumConnectionsPerAddress,
            .limitedInteger(1...1_000_000),
            reloadable: true,
            "concurrent connections from one IPv4 address or IPv6 /64; an IPv6 /48 may have four times as many. At the limit the connection that has been idle longest is closed; if none is idle, the new one. Connections of trusted proxies and of Kakao are not counted"
        ),
        Setting(
            "http.trusted_proxies",
            \.http.trustedProxies,
            .proxies,
            example: "127.0.0.1, 10.0.0.0/8",
            "proxies whose report of the client's address is trusted. **Set it behind a proxy**: otherwise all phones count as one address ([rate limits](#rate-limits))"
        ),
        Setting(
            "http.forwarded_field",
            \.http.forwardedField,
            .choice,
            "the header field in which these proxies report it. They must append to it or replace it: what they pass on unchanged is the client's word"
        ),
        .required(
            "database.url",
            \.databaseURL,
            .secret(),
            example: "postgres://push:secret@localhost:5432/push",
            "the database, `postgres://user:password@host:5432/name`. It contains a password: prefer the environment or a file to the settings file"
        ),
        Setting(
            "database.read_url",
            \.replicaURL,
            optional: .secret(),
            example: "postgres://push:secret@replica:5432/push",
            "a replica of the database, such as a standby: lists, exports, statistics and dry runs read there while it is less than a minute behind ([replica](deployment.md#a-replica-for-reads))"
        ),
        Setting(
            "database.migrate",
            \.migratesOnStart,
            .boolean,
            "whether `serve` applies pending migrations at start; otherwise it refuses to start until `push-server migrate` has run"
        ),
        Setting(
            "database.max_connections",
            \.maximumDatabaseConnections,
            .integer(ConnectionPlan.minimum...10_000),
            "connections to PostgreSQL of this server, which its event loops share ([connections](#connections-to-postgresql))"
        ),
    ]

    private static let log: [Setting<Settings>] = [
        Setting("log.level", \.logLevel, .choice, reloadable: true, "the lowest level to log"),
        Setting(
            "log.format",
            \.logFormat,
            .choice,
            "`text` for people, `json` for programs; one line an event, on standard error"
        ),
    ]
}
