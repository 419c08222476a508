import ArgumentParser
import Crypto
import EventLoop
import FoundationEssentials
import Glibc
import HTTPServer
import LogOutput
import Logging
import Net
import OperatorPage
import Postgres
import PrivatePostgres
import Server
import Settings

struct DevCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dev",
        abstract: "Run the server with its own PostgreSQL and Kakao sandbox, without configuration.",
        discussion: """
            Starts a private PostgreSQL in .local/, runs the migrations, and starts the sandbox (over HTTPS) and the server (over \
            HTTP, and for phones over HTTPS at a second port). Both have the certificate .local/certificate.pem, which only their \
            clients trust. They share one log, and Ctrl-C stops them all. While they run, .local/dev.env has their addresses, keys \
            and settings: after . .local/dev.env, every command of push-server works.

            If another program uses port 8080, choose another one: --port 8081.

            Settings come from config/push-server.yaml, if there is one, and the environment; the keys, the database and the \
            sandbox are its own. A shell that has read dev.env keeps the settings of that run: start the next one in another shell. \
            After a change of the file, kill -HUP $(head -1 .local/dev.lock) applies what needs no restart.
            """
    )

    @OptionGroup var options: SettingsOptions

    @Option(help: "The folder of the database and the keys.")
    var directory = ".local"

    @Option(
        help: """
            The numeric address on which the server and the sandbox listen. 0.0.0.0 opens them and their keys to the network, \
            for phones. Neither HTTP_HOST nor the settings file changes it.
            """
    )
    var host = "127.0.0.1"

    @Option(help: "The server's port; 0 for any free port. (default: HTTP_PORT, or 8080)")
    var port: UInt16?

    @Option(help: "The server's port for HTTPS; 0 for any free port.")
    var httpsPort: UInt16 = 0

    @Option(help: "The sandbox's port; 0 for any free port.")
    var sandboxPort: UInt16 = 0

    /// The file of the addresses, keys and settings.
    private var file: String { "\(directory)/dev.env" }

    func validate() throws {
        guard SocketAddress(host) != nil else {
            throw ValidationError("--host must be a numeric address, such as 0.0.0.0 or 192.168.0.10.")
        }
    }

    @concurrent
    func run() async throws {
        try await reportingFailures {
            let sink = LogSink()
            defer { sink.flush() }
            try SandboxProcess.check()
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            let lock = try DevLock(directory: directory)
            defer { withExtendedLifetime(lock) {} }
            // Only while this server is ready is there a file, for which scripts can wait. One of a run that was killed is
            // removed.
            unlink(file)
            defer { unlink(file) }
            let dev = DevSettings(options: options, directory: absolute(directory), host: host, port: port)
            let keys = try DevKeys(directory: directory)
            try checkPorts(try dev.read(dev.variables(keys)))
            let cluster = PostgresCluster(directory: "\(directory)/postgres") { line in
                sink.write(Array("postgres | \(line)\n".utf8))
            }
            let databaseURL = try await cluster.start()
            do {
                try await runServer(dev, keys, databaseURL, lock, sink)
            } catch {
                await cluster.stop()
                throw error
            }
            await cluster.stop()
        }
    }

    /// Checks the ports before anything starts, since that takes seconds.
    private func checkPorts(_ settings: Settings) throws {
        let host = DevHost(settings.http.host)
        try host.checkIsFree(settings.http.port, "--port")
        try host.checkIsFree(Int(httpsPort), "--https-port")
        try host.checkIsFree(Int(sandboxPort), "--sandbox-port")
        guard let operatorPort = settings.operatorPort else { return }
        try DevHost(settings.operatorHost ?? settings.http.host).checkIsFree(operatorPort, "HTTP_OPERATOR_PORT")
    }

    private func runServer(
        _ dev: DevSettings,
        _ keys: DevKeys,
        _ databaseURL: String,
        _ lock: DevLock,
        _ sink: LogSink
    ) async throws {
        let given = try dev.read(dev.variables(keys))
        let host = DevHost(given.http.host)
        let certificate = try DevCertificate(
            directory: dev.directory,
            names: [host.name] + [given.givenHost].compactMap(\.self)
        )
        let sandbox = SandboxProcess { line in sink.write(Array("sandbox  | \(line)\n".utf8)) }
        let sandboxURL = try await sandbox.start(
            host: host,
            port: sandboxPort,
            adminKey: keys.adminKey,
            certificate: certificate,
            callbackCertificateFile: given.certificateFile
        )
        do {
            let variables = dev.variables(
                keys,
                databaseURL: databaseURL,
                sandboxURL: sandboxURL,
                certificateFile: certificate.file
            )
            let settings = try dev.read(variables)
            let logger = settings.logger(sink)
            try await migrate(settings, logger)
            try await SandboxDevices(settings: settings, logger: logger).register()
            let server = try PushServer(
                settings: settings,
                migrations: options.migrations,
                logger: logger,
                logSink: sink,
                securePort: SecurePort(port: Int(httpsPort), option: "--https-port", tls: certificate.tls),
                sandboxURL: sandboxURL
            ) { server in
                let addresses = DevAddresses(settings, server, sandboxURL)
                let file = DevFile(
                    addresses: addresses.variables + [("SANDBOX_CERTIFICATE", certificate.file)],
                    settings: addresses.complete(variables),
                    programs: Executable.folder
                )
                try PrivateFile.write(file.text, to: self.file)
                try lock.write(server: addresses.server, sandbox: sandboxURL)
                logger.notice(
                    "Development server started; its addresses and keys are in \(self.file)",
                    metadata: [
                        "server": "\(addresses.server)", "public": "\(addresses.public)",
                        "https": "\(addresses.secure)",
                    ]
                )
                sink.flush()
                Terminal.writeLine(welcome(addresses.page, keys, showsPage: settings.page.isEnabled))
                guard !host.isLocal else { return }
                logger.warning(
                    "Open to the network: other machines can use the keys of this server, and control the sandbox without a key",
                    metadata: ["host": "\(host.address)", "sandbox": "\(sandboxURL)"]
                )
            }
            try await SandboxProcess.setCallbackURL(
                DevAddresses(settings, server, sandboxURL).local,
                of: sandboxURL,
                certificateFile: certificate.file
            )
            try await server.runUntilSignal { try dev.read(variables) }
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

    /// Returns what to do first. A terminal gets the address that signs in: a browser sends no fragment, and so its key is in no log.
    private func welcome(_ page: String, _ keys: DevKeys, showsPage: Bool) -> String {
        let shell = ". \(file) && push-server pushes list"
        guard showsPage else { return "Ready. Try  \(shell)\nCtrl-C stops everything." }
        let key = Terminal.isOutput ? "#key=\(keys.operatorKey)" : ""
        let note = Terminal.isOutput ? "signs you in; on this machine only" : "the key is OPERATOR_KEY in \(file)"
        return """

            Ready.  Open  \(page)\(key)   (\(note))
                    or    \(shell)
            Ctrl-C stops everything.

            """
    }

    /// Creates the tables before the first statement that reads them.
    private func migrate(_ settings: Settings, _ logger: Logger) async throws {
        let loops = try EventLoopGroup(count: 1)
        defer { loops.shutdown() }
        let database = try PostgresSettings(url: settings.databaseURL.revealed)
        let migrator = try Migrator(ofProgramOr: options.migrations)
        _ = try await migrator.migrate(settings: database, loop: loops.loops[0], logger: logger)
    }
}

extension Settings {
    /// The host of `http.public_url`; `nil` if it is not set.
    fileprivate var givenHost: String? {
        guard case .given(let url) = publicURL else { return nil }
        let host = WebAddress(url).host
        return host.isEmpty ? nil : host
    }
}

/// The addresses of a development server that runs.
private struct DevAddresses {
    /// The URL for operators. Their port, if they have one, answers everything.
    let server: String
    /// The URL at which this machine reaches the port that apps and the sandbox call.
    let local: String
    /// The URL that apps call: that of `http.public_url`, if it is set.
    let `public`: String
    /// The URL over HTTPS, with the certificate of the sandbox.
    let secure: String
    /// The URL of the operator's page on this machine.
    let page: String
    private let sandbox: String
    private let ports: [String: String]

    init(_ settings: Settings, _ server: PushServer, _ sandboxURL: String) {
        let host = DevHost(settings.http.host)
        let port = server.port
        local = settings.url(host: host.inURL, port: port)
        `public` = settings.publicURL(port: port) ?? local
        secure = "https://\(host.inURL):\(server.securePort ?? 0)"
        sandbox = sandboxURL
        guard let operatorPort = server.operatorPort else {
            self.server = local
            page = "\(settings.url(host: Self.localName(settings.http.host), port: port))/ui/"
            ports = ["HTTP_PORT": "\(port)"]
            return
        }
        page = "\(settings.url(host: Self.localName(settings.operatorHost ?? host.address), port: operatorPort))/ui/"
        self.server = settings.url(host: DevHost(settings.operatorHost ?? host.address).inURL, port: operatorPort)
        ports = ["HTTP_PORT": "\(port)", "HTTP_OPERATOR_PORT": "\(operatorPort)"]
    }

    /// Without TLS the page is at a local name only.
    private static func localName(_ host: String) -> String {
        ["0.0.0.0", "::"].contains(host) ? "127.0.0.1" : DevHost(host).inURL
    }

    var variables: [(name: String, value: String)] {
        [
            ("SERVER_URL", server), ("PUBLIC_URL", `public`), ("LOCAL_URL", local), ("HTTPS_URL", secure),
            ("SANDBOX_URL", sandbox),
        ]
    }

    /// Returns the settings with the ports that the kernel chose, and with the server's own address as the public one if
    /// no other was given.
    func complete(_ variables: [String: String]) -> [String: String] {
        ["HTTP_PUBLIC_URL": `public`].merging(variables) { $1 }.merging(ports) { $1 }
    }
}

/// Returns a path that does not depend on the current folder.
private func absolute(_ path: String) -> String {
    path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)"
}
