import ChildProcess
import Glibc
import Subprocess

/// A private PostgreSQL server for `push-server dev` and for tests.
///
/// It is created on first use, and starts and stops with this process. It is never reachable over a network: it listens
/// on a Unix socket in a directory that only its user may enter. Its settings are durable ones, as in production. If
/// this process is root, the server runs as the user `postgres`, or else `nobody`. Where `setpriv` (util-linux) is
/// installed, the server shuts down cleanly even if this process is killed.
package actor PostgresCluster {
    /// The shutdown mode (PostgreSQL manual, "Shutting Down the Server").
    package enum StopMode: Sendable {
        /// Sessions are terminated, then all data is written. The next start needs no recovery.
        case fast
        /// The server aborts. The next start recovers from the write-ahead log.
        case immediate
    }

    /// The time limit of a start, which includes recovery after a crash.
    private static let startTimeout: Duration = .seconds(60)
    private static let fastStopTimeout: Duration = .seconds(10)
    private static let immediateStopTimeout: Duration = .seconds(5)
    /// The time limit for an orphaned server to end before a new one is started.
    private static let orphanTimeout: Duration = .seconds(15)
    private static let pollInterval: Duration = .milliseconds(50)
    /// The messages of a server and of a standby that accept connections. They are in English, because `lc_messages` is C.
    private static let readyMessages = ["ready to accept connections", "ready to accept read-only connections"]

    private let directory: String
    private let settings: [String: String]
    private let onLine: @Sendable (String) -> Void
    private var location: ClusterLocation?
    private var server: ChildProcess?

    /// - Parameters:
    ///   - directory: The directory of the cluster. A relative path is relative to the current working directory.
    ///   - settings: Settings of PostgreSQL, in addition to this type's own.
    ///   - onLine: Called with each line that the server prints.
    package init(
        directory: String,
        settings: [String: String] = [:],
        onLine: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.directory = ClusterLocation.absolute(directory)
        self.settings = settings
        self.onLine = onLine
    }

    /// The URL of the Unix socket; `nil` before the first ``start()``.
    package var url: String? {
        location.map { "postgresql://postgres@/postgres?host=\(percentEncoded($0.root))&port=\(ClusterLocation.port)" }
    }

    /// The actual directory of the cluster; `nil` before the first ``start()``.
    package var realDirectory: String? { location?.root }

    /// The server's process id; `nil` while it does not run.
    package var processIdentifier: Int32? {
        get async { await server?.processIdentifier }
    }

    /// Starts the server, and creates the cluster on first use. Returns its URL when it accepts connections; at once if
    /// it runs already.
    ///
    /// - Throws: ``PrivatePostgresError`` with the server's output.
    @discardableResult
    package func start() async throws -> String {
        if let url, case .ready = await server?.phase { return url }
        let user = try ServiceUser.current()
        let installation = try await Installation.find(user: user)
        let location = try await ClusterLocation.prepare(directory, user: user)
        self.location = location
        try await makeData(location, installation, user)
        let deadline = ContinuousClock.now + Self.orphanTimeout
        while true {
            try await waitForOrphan(location, until: deadline)
            let server = ChildProcess(
                isReady: { line in Self.readyMessages.contains { line.hasSuffix($0) } },
                onLine: onLine
            )
            self.server = server
            try launch(server, location, installation, user)
            switch await server.waitUntilReady(within: Self.startTimeout) {
            case .ready:
                return url ?? ""
            case .ended:
                let lines = await server.lastLines
                // Child processes of a killed server keep its shared memory for a moment.
                guard lines.contains(where: { $0.contains("shared memory block") }), ContinuousClock.now < deadline
                else {
                    throw PrivatePostgresError("PostgreSQL did not start:", output: lines)
                }
                try await Task.sleep(for: Self.pollInterval)
            case .starting:
                await stop(.immediate)
                throw PrivatePostgresError("PostgreSQL did not start in time:", output: await server.lastLines)
            }
        }
    }

    /// Stops the server and waits until it has ended. A server that does not react is killed.
    package func stop(_ mode: StopMode = .fast) async {
        guard let server else { return }
        self.server = nil
        // A task of its own, because cancellation of the caller is often the reason for stopping and must not interrupt
        // it.
        await Task {
            if mode == .fast, await server.end(with: .interrupt, within: Self.fastStopTimeout) { return }
            if await server.end(with: .quit, within: Self.immediateStopTimeout) { return }
            await server.end(with: .kill, within: Self.immediateStopTimeout)
        }.value
    }

    package func restart() async throws {
        await stop()
        try await start()
    }

    // MARK: Steps

    private func makeData(_ location: ClusterLocation, _ installation: Installation, _ user: ServiceUser) async throws {
        guard access("\(location.data)/PG_VERSION", F_OK) != 0 else { return }
        let remove = Program(path: Program.find("rm") ?? "/bin/rm", user: user)
        _ = try await remove.run(["-rf", "--", location.unfinishedData])
        let initdb = Program(path: installation.initdb, user: user)
        let (output, isSuccess) = try await initdb.run([
            "--pgdata=\(location.unfinishedData)",
            "--username=postgres",
            "--encoding=UTF8",
            "--no-locale",
            "--auth-local=trust",
            "--auth-host=reject",
            "--data-checksums",
            "--no-instructions",
        ])
        guard isSuccess else { throw PrivatePostgresError("initdb failed:", output: output.suffix(10)) }
        guard rename(location.unfinishedData, location.data) == 0 else {
            throw PrivatePostgresError("Cannot create \(location.data): \(String(cString: strerror(errno))).")
        }
    }

    /// Waits for the server of an earlier run, which is about to end because its parent was killed.
    private func waitForOrphan(_ location: ClusterLocation, until deadline: ContinuousClock.Instant) async throws {
        while let process = LockFile.owner(location.postmasterLock, data: location.data)
            ?? LockFile.owner(location.socketLock, data: location.data)
        {
            guard ContinuousClock.now < deadline else {
                throw PrivatePostgresError("PostgreSQL already runs in \(location.root) (process \(process)). Stop it.")
            }
            try await Task.sleep(for: Self.pollInterval)
        }
    }

    private func launch(
        _ server: ChildProcess,
        _ location: ClusterLocation,
        _ installation: Installation,
        _ user: ServiceUser
    ) throws {
        var values = [
            "listen_addresses": "",
            // A list, whose items are quoted like identifiers.
            "unix_socket_directories": quoted(location.root),
            "unix_socket_permissions": "0700",
            "port": "\(ClusterLocation.port)",
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "logging_collector": "off",
            "log_destination": "stderr",
            "lc_messages": "C",
        ]
        values.merge(settings) { _, given in given }
        let arguments =
            ["-D", location.data] + values.sorted { $0.key < $1.key }.flatMap { ["-c", "\($0.key)=\($0.value)"] }
        let postgres = Program(path: installation.postgres, user: user)
        let (executable, parameters) = try postgres.command(arguments, endsWithUs: true)
        server.launch(executable, parameters, environment: Program.environment)
    }

    private func quoted(_ path: String) -> String {
        let doubled = path.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"")
        return "\"\(doubled)\""
    }

    private func percentEncoded(_ path: String) -> String {
        path.utf8.map { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: return String(UnicodeScalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                return digits.utf8.count == 1 ? "%0\(digits)" : "%\(digits)"
            }
        }.joined()
    }
}
