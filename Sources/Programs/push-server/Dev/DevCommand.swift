import ArgumentParser
import FoundationEssentials
import Glibc
import HTTPServer
import LogOutput
import Logging
import Net
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
            that only this server trusts) and the server. They share one log, and Ctrl-C stops them all. While they run, \
            .local/dev.env has their addresses, keys and settings: after . .local/dev.env, every command of push-server works.
            """
    )

    @OptionGroup var options: SettingsOptions

    @Option(help: "The folder of the database and the keys.")
    var directory = ".local"

    @Option(
        help: """
            The numeric address on which the server and the sandbox listen. 0.0.0.0 opens them and their keys to the network, \
            for phones. (default: HTTP_HOST, or 127.0.0.1)
            """
    )
    var host: String?

    @Option(help: "The server's port; 0 for any free port. (default: HTTP_PORT, or 8080)")
    var port: UInt16?

    @Option(help: "The sandbox's port; 0 for any free port.")
    var sandboxPort: UInt16 = 0

    /// The file of the addresses, keys and settings.
    private var file: String { "\(directory)/dev.env" }

    func validate() throws {
        guard host.map({ SocketAddress($0) != nil }) ?? true else {
            throw ValidationError("--host must be a numeric address, such as 0.0.0.0 or 192.168.0.10.")
        }
    }

    @concurrent
    func run() async throws {
        try await reportingFailures {
            let sink = LogSink()
            defer { sink.flush() }
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
        let host = DevHost(try dev.read(dev.variables(keys)).http.host)
        let sandbox = SandboxProcess { line in sink.write(Array("sandbox  | \(line)\n".utf8)) }
        let sandboxURL = try await sandbox.start(
            host: host,
            port: sandboxPort,
            adminKey: keys.adminKey,
            certificateFile: dev.certificateFile
        )
        do {
            let variables = dev.variables(keys, databaseURL: databaseURL, sandboxURL: sandboxURL)
            let settings = try dev.read(variables)
            let logger = settings.logger(sink)
            try await SandboxDevices(settings: settings, logger: logger).register()
            let server = try PushServer(
                settings: settings,
                migrations: options.migrations,
                logger: logger,
                logSink: sink
            ) { server in
                let addresses = DevAddresses(settings, port: server.port, operatorPort: server.operatorPort, sandboxURL)
                let file = DevFile(
                    addresses: addresses.variables + [("SANDBOX_CERTIFICATE", dev.certificateFile)],
                    settings: addresses.complete(variables),
                    programs: Executable.folder
                )
                try PrivateFile.write(file.text, to: self.file)
                try lock.write(server: addresses.server, sandbox: sandboxURL)
                logger.notice(
                    "Development server started; its addresses and keys are in \(self.file)",
                    metadata: ["server": "\(addresses.server)", "public": "\(addresses.public)"]
                )
                guard !host.isLocal else { return }
                logger.warning(
                    "Open to the network: other machines can use the keys of this server, and control the sandbox without a key",
                    metadata: ["host": "\(host.address)", "sandbox": "\(sandboxURL)"]
                )
            }
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
}

/// The addresses of a development server that runs.
private struct DevAddresses {
    /// The URL for operators. Their port, if they have one, answers everything.
    let server: String
    /// The URL that apps and Kakao call.
    let `public`: String
    private let sandbox: String
    private let ports: [String: String]

    init(_ settings: Settings, port: Int, operatorPort: Int?, _ sandboxURL: String) {
        let host = DevHost(settings.http.host)
        `public` = settings.url(host: host.inURL, port: port)
        sandbox = sandboxURL
        guard let operatorPort else {
            server = `public`
            ports = ["HTTP_PORT": "\(port)"]
            return
        }
        server = settings.url(host: DevHost(settings.operatorHost ?? host.address).inURL, port: operatorPort)
        ports = ["HTTP_PORT": "\(port)", "HTTP_OPERATOR_PORT": "\(operatorPort)"]
    }

    var variables: [(name: String, value: String)] {
        [("SERVER_URL", server), ("PUBLIC_URL", `public`), ("SANDBOX_URL", sandbox)]
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
