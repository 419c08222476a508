internal import Glibc
internal import Subprocess

/// A PostgreSQL of our own: for `push-server dev` and for tests.
///
/// It is made on first use and started and stopped with us. Nothing of it is ever on a network: it listens on a Unix
/// socket in a directory that only its user may enter. Its settings are durable ones, as in production. If we are root,
/// it runs as the user `postgres`, or else `nobody`. It ends in order when we are killed, where `setpriv` (util-linux)
/// is there to see to that.
package actor PostgresCluster {
    /// How the server ends (PostgreSQL manual, "Shutting Down the Server").
    package enum StopMode: Sendable {
        /// Sessions are cut off, then everything is written: the next start has nothing to recover.
        case fast
        /// At once. The next start recovers from the log.
        case immediate
    }

    /// Recovery after a crash is part of a start.
    private static let startTimeout: Duration = .seconds(60)
    private static let fastStopTimeout: Duration = .seconds(10)
    private static let immediateStopTimeout: Duration = .seconds(5)
    /// How long a server that was orphaned may take to end before a new one is started.
    private static let orphanTimeout: Duration = .seconds(15)
    private static let pollInterval: Duration = .milliseconds(50)

    private let directory: String
    private let settings: [String: String]
    private let onLine: @Sendable (String) -> Void
    private var location: ClusterLocation?
    private var server: ServerProcess?

    /// - Parameters:
    ///   - directory: where it is, or will be; a relative one belongs to the present working directory.
    ///   - settings: of PostgreSQL, on top of our own.
    ///   - onLine: is given each line that the server prints.
    package init(
        directory: String,
        settings: [String: String] = [:],
        onLine: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.directory = ClusterLocation.absolute(directory)
        self.settings = settings
        self.onLine = onLine
    }

    /// Where to connect: the Unix socket. `nil` before the first ``start()``.
    package var url: String? {
        location.map { "postgresql://postgres@/postgres?host=\(percentEncoded($0.root))&port=\(ClusterLocation.port)" }
    }

    /// The directory where it really is; `nil` before the first ``start()``.
    package var realDirectory: String? { location?.root }

    /// The server's process id while it runs.
    package var processIdentifier: Int32? {
        get async { await server?.processIdentifier }
    }

    /// Starts the server, and makes it on first use. Returns its URL when it accepts connections; at once if it runs
    /// already.
    ///
    /// - Throws: ``PrivatePostgresError``, with what the server had to say.
    @discardableResult
    package func start() async throws -> String {
        if let url, let server, await server.phase == .ready { return url }
        let user = try ServiceUser.current()
        let installation = try await Installation.find(user: user)
        let location = try await ClusterLocation.prepare(directory, user: user)
        self.location = location
        try await makeData(location, installation, user)
        let deadline = ContinuousClock.now + Self.orphanTimeout
        while true {
            try await waitForOrphan(location, until: deadline)
            let server = ServerProcess(onLine: onLine)
            self.server = server
            try launch(server, location, installation, user)
            switch await server.waitUntilReady(within: Self.startTimeout) {
            case .ready:
                return url ?? ""
            case .ended:
                let lines = await server.lastLines
                // Children of a server that was killed hold its shared memory for another moment.
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

    /// Stops the server and waits until it has ended. One that does not obey is killed.
    package func stop(_ mode: StopMode = .fast) async {
        guard let server else { return }
        self.server = nil
        // Not interrupted by the cancellation of whoever stops it: that is often why it is stopped.
        await Task {
            if mode == .fast, await server.end(with: .interrupt, within: Self.fastStopTimeout) { return }
            if await server.end(with: .quit, within: Self.immediateStopTimeout) { return }
            _ = await server.end(with: .kill, within: Self.immediateStopTimeout)
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
            throw PrivatePostgresError("\(location.data) cannot be made: \(String(cString: strerror(errno))).")
        }
    }

    /// Waits for a server of an earlier run, whose parent was killed and which is about to end.
    private func waitForOrphan(_ location: ClusterLocation, until deadline: ContinuousClock.Instant) async throws {
        while let process = LockFile.owner(location.postmasterLock, data: location.data)
            ?? LockFile.owner(location.socketLock, data: location.data)
        {
            guard ContinuousClock.now < deadline else {
                throw PrivatePostgresError("A PostgreSQL is running in \(location.root) already (process \(process)).")
            }
            try await Task.sleep(for: Self.pollInterval)
        }
    }

    private func launch(
        _ server: ServerProcess,
        _ location: ClusterLocation,
        _ installation: Installation,
        _ user: ServiceUser
    ) throws {
        var values = [
            "listen_addresses": "",
            // A list: its items are quoted like identifiers.
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
        try server.launch(Program(path: installation.postgres, user: user), arguments)
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
