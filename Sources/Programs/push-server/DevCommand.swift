import ArgumentParser
import Crypto
import FoundationEssentials
import Glibc
import LogOutput
import Logging
import Postgres
import PrivatePostgres
import Server
import Settings

struct DevCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dev",
        abstract: "Run the server with its own PostgreSQL and Kakao sandbox, without configuration.",
        discussion: """
            Starts a private PostgreSQL in .local/, runs the migrations, and starts the sandbox (over HTTPS, with a certificate \
            that only this server trusts) and the server. They share one log, and Ctrl-C stops them all. The addresses and keys \
            are written to .local/dev.env.
            """
    )

    @OptionGroup var options: SettingsOptions

    @Option(help: "The folder of the database and the keys.")
    var directory = ".local"

    @Option(help: "The server's port; 0 for any free port. (default: HTTP_PORT, or 8080)")
    var port: UInt16?

    @Option(help: "The sandbox's port; 0 for any free port.")
    var sandboxPort: UInt16 = 0

    @concurrent
    func run() async throws {
        try await reportingFailures {
            let sink = LogSink()
            defer { sink.flush() }
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            // Removes the file of the last run, so that a script that waits for the file waits for this run's.
            unlink("\(directory)/dev.env")
            let keys = try DevKeys(directory: directory)
            let cluster = PostgresCluster(directory: "\(directory)/postgres") { line in
                sink.write(Array("postgres | \(line)\n".utf8))
            }
            let databaseURL = try await cluster.start()
            do {
                try await runServer(keys, databaseURL, sink)
            } catch {
                await cluster.stop()
                throw error
            }
            await cluster.stop()
        }
    }

    private func runServer(_ keys: DevKeys, _ databaseURL: String, _ sink: LogSink) async throws {
        let certificateFile = "\(absolute(directory))/sandbox.pem"
        let sandbox = SandboxProcess { line in sink.write(Array("sandbox  | \(line)\n".utf8)) }
        let sandboxURL = try await sandbox.start(
            port: sandboxPort,
            adminKey: keys.adminKey,
            certificateFile: certificateFile
        )
        do {
            let read = { @Sendable in try self.settings(keys, databaseURL, sandboxURL, certificateFile) }
            let settings = try read()
            let logger = settings.logger(sink)
            let directory = directory
            let server = try PushServer(
                settings: settings,
                migrations: options.migrations,
                logger: logger,
                logSink: sink
            ) { server in
                func url(_ port: Int) -> String {
                    "\(settings.certificateFile == nil ? "http" : "https")://127.0.0.1:\(port)"
                }
                // The port for operators answers everything.
                let (serverURL, publicURL) = (url(server.operatorPort ?? server.port), url(server.port))
                try PrivateFile.write(
                    variables: [
                        ("SERVER_URL", serverURL),
                        ("PUBLIC_URL", publicURL),
                        ("SANDBOX_URL", sandboxURL),
                        ("SANDBOX_CERTIFICATE", certificateFile),
                        ("OPERATOR_KEY", keys.operatorKey),
                        ("KAKAO_ADMIN_KEY", keys.adminKey),
                        ("FEEDBACK_SECRET", keys.feedbackSecret),
                        ("DATABASE_URL", databaseURL),
                    ],
                    to: "\(directory)/dev.env"
                )
                logger.notice(
                    "Development server started; its addresses and keys are in \(directory)/dev.env",
                    metadata: ["server": "\(serverURL)", "public": "\(publicURL)"]
                )
            }
            try await server.runUntilSignal(reloading: read)
        } catch {
            await sandbox.stop()
            guard let error = error as? PostgresError, error.code == .migration else { throw error }
            throw SettingsError(
                place: directory,
                message:
                    "\(error.message) Another version created the database in this folder. Delete the folder to start with an empty one."
            )
        }
        await sandbox.stop()
    }

    /// Returns the settings from the environment and the settings file, with those of the private database and sandbox.
    private func settings(
        _ keys: DevKeys,
        _ databaseURL: String,
        _ sandboxURL: String,
        _ certificateFile: String
    ) throws -> Settings {
        // With the sandbox's app and its keys, the server accepts tokens of users who log in there, and its account
        // events.
        let fixed = [
            "DATABASE_URL": databaseURL,
            "OPERATOR_KEY": keys.operatorKey,
            "FEEDBACK_SECRET": keys.feedbackSecret,
            "ACCOUNTS_ENCRYPTION_KEY": keys.encryptionKey,
            "KAKAO_ADMIN_KEY": keys.adminKey,
            "KAKAO_API_URL": sandboxURL,
            "KAKAO_AUTH_URL": sandboxURL,
            "KAKAO_CA_CERTIFICATE_FILE": certificateFile,
            "KAKAO_APP_ID": "123456",
        ]
        let defaults = [
            "KAKAO_NATIVE_APP_KEY": "sandbox-native-app-key",
            "KAKAO_REST_API_KEY": "sandbox-rest-api-key",
            "KAKAO_CLIENT_SECRET": "sandbox-client-secret",
            "LOGIN_RETURN_URLS": "http://localhost:3000/login/done",
            "SHARING_APP_KEY_CALLS": "true",
            "SHARING_KA_HEADER": "sdk/2.27.3 os/ios-17.0 origin/com.example.app",
            "STORY_ENABLED": "true",
            "IDENTITY_EXPLAIN_REJECTIONS": "true",
            "JOURNAL_DIRECTORY": "\(absolute(directory))/journal",
        ]
        var environment = defaults.merging(ProcessInfo.processInfo.environment) { _, given in given }
        environment.merge(fixed) { _, fixed in fixed }
        if let port { environment["HTTP_PORT"] = String(port) }
        var settings = try options.load(environment: environment)
        settings.publicURL = settings.publicURL ?? .own
        return settings
    }
}

/// The keys of a development server, which are generated once and stored beside its database.
struct DevKeys {
    let operatorKey: String
    let adminKey: String
    let feedbackSecret: String
    /// The key that encrypts users' tokens, in Base64. Without it, the tokens in the database are lost.
    let encryptionKey: String

    init(directory: String) throws {
        func key(_ name: String, _ make: () -> String = { RandomKey.hexadecimal(words: 2) }) throws -> String {
            let path = "\(directory)/\(name)"
            if let text = FileContents.read(path), !text.isEmpty { return String(decoding: text, as: UTF8.self) }
            let key = make()
            try PrivateFile.write(key, to: path)
            return key
        }
        operatorKey = try key("operator.key")
        adminKey = try key("kakao-admin.key")
        feedbackSecret = try key("feedback.secret")
        encryptionKey = try key("accounts-encryption.key") {
            Data(RandomKey.bytes(EncryptionKey.length)).base64EncodedString()
        }
    }
}

/// Files that only their owner may read.
enum PrivateFile {
    /// Writes shell variables to a file.
    static func write(variables: [(name: String, value: String)], to path: String) throws {
        try write(variables.map { "\($0.name)='\($0.value)'\n" }.joined(), to: path)
    }

    /// Writes `text` atomically: a reader sees the old file or the new one.
    static func write(_ text: String, to path: String) throws {
        let temporary = "\(path).new"
        // A file that is there may be of a run that was killed, or a link of another user of this machine. Neither is
        // written to, nor are its permissions kept.
        unlink(temporary)
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SettingsError(place: path, message: "The file cannot be written.") }
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count, rename(temporary, path) == 0 else {
            throw SettingsError(place: path, message: "The file cannot be written.")
        }
    }
}

private func absolute(_ path: String) -> String {
    path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)"
}
