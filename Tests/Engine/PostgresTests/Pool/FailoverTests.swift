import EventLoop
import Glibc
import Locking
import Net
import PrivatePostgres
import TestSupport
import Testing

@testable import Postgres

/// Several hosts, and servers that accept no changes.
@Suite struct FailoverTests {
    /// Runs `body` with a pool of several hosts.
    private func withPool(
        _ url: String,
        _ adjust: (inout PostgresSettings) -> Void = { _ in },
        _ body: (PostgresPool, PostgresSettings) async throws -> Void
    ) async throws {
        var settings = try PostgresSettings(url: url)
        adjust(&settings)
        let pool = PostgresPool(settings: settings, loop: try TestDatabase.loop(), logger: quietLogger)
        try await pool.run { try await body(pool, settings) }
    }

    /// Returns the error of a write, which must fail.
    private func failure(of pool: PostgresPool) async throws -> PostgresError {
        try await postgresError { try await pool.write("CREATE TABLE IF NOT EXISTS t ()") }
    }

    @Test(
        "A host that accepts connections and does not respond, or drops packets, is passed over by all connections",
        arguments: [true, false]
    )
    func silentHost(accepts: Bool) async throws {
        try await TestDatabase.slots.with {
            let (listener, port) = try LoopbackSocket.listen()
            defer { close(listener) }
            let dropping = try SilentListener()
            let url = try await SharedPostgres.url
            let settings = try PostgresSettings(url: url)
            let good = try #require(settings.hosts.first)
            let host = try #require(good.host)
            let hosts = "host=127.0.0.1,\(host) port=\(accepts ? port : dropping.port),\(good.port ?? "5432")"
            try await withPool("\(hosts) user=postgres dbname=postgres") { pool, settings in
                // A transaction has a connection of its own.
                try await pool.withTransaction { _ = try await $0.query("SELECT 1") }
                try await pool.write("SELECT 1")
                let silent = PostgresAddress(
                    host: "127.0.0.1",
                    hostaddr: "127.0.0.1",
                    port: settings.hosts.first?.port
                )
                let next = settings.addresses.withLock { $0.round(of: [silent, good], at: 0) }
                #expect(next == [good])
            }
            withExtendedLifetime(dropping) {}
        }
    }

    @Test("Once the database is reached elsewhere, statements wait no longer for a server that does not respond")
    func abandonedServer() async throws {
        // A private server: while one of its backends is stopped, the commands that create and drop databases wait.
        try await TestDatabase.slots.with {
            try await TestCluster.with { _, url in
                try await withPool(url) { settings in
                    settings.statementTimeout = .seconds(600)
                } _: { pool, settings in
                    let backend = try await pool.value(Int32.self, "SELECT pg_backend_pid()")
                    let address = try #require(settings.hosts.first)
                    let other = PostgresAddress(host: "192.0.2.1")
                    #expect(kill(backend, SIGSTOP) == 0)
                    defer { _ = kill(backend, SIGCONT) }
                    let error = Locked<PostgresError?>(nil)
                    let read = Task(executorPreference: pool.loop) {
                        let result = try await postgresError { _ = try await pool.read("SELECT 1") }
                        error.withLock { $0 = result }
                    }
                    try await eventually("the read is given up") {
                        // Again and again, since a connection that the pool opens meanwhile reaches the first address.
                        settings.addresses.withLock {
                            $0.isLate(address, at: 0)
                            $0.reached(other)
                        }
                        return error.withLock { $0 } != nil
                    }
                    try await read.value
                    let thrown = try #require(error.withLock { $0 })
                    #expect(thrown.code == .timedOut)
                    #expect(thrown.detail?.contains("reached at another address meanwhile") == true)
                    try await eventually("there is a new connection") {
                        (try? await pool.value(Int32.self, "SELECT pg_backend_pid()")).map { $0 != backend } ?? false
                    }
                }
            }
        }
    }

    @Test("Each address of a name is tried, and the one that does not respond is tried last from then on")
    func addressesOfName() async throws {
        let (listener, port) = try LoopbackSocket.listen()
        defer { close(listener) }
        let name = "db.example.com"
        try await withPool("host=\(name) port=\(port) user=me dbname=push") { settings in
            settings.resolver = NameResolver { _ in
                // Nothing listens at the second one.
                .success(["127.0.0.1", "127.0.0.2"].compactMap { SocketAddress($0) })
            }
        } _: { pool, settings in
            let error = try await failure(of: pool)
            #expect(error.code == .unavailable)
            #expect(error.detail?.contains("127.0.0.1") == true, "\(String(reflecting: error))")
            #expect(error.detail?.contains("127.0.0.2") == true, "\(String(reflecting: error))")
            let addresses = ["127.0.0.1", "127.0.0.2"].map {
                PostgresAddress(host: name, hostaddr: $0, port: "\(port)")
            }
            #expect(settings.addresses.withLock { $0.round(of: addresses, at: 0) }.first == addresses[1])
        }
    }

    @Test("The error names what was wrong at each address")
    func errors() async throws {
        try await withPool("host=/nowhere,127.0.0.1 port=5432,1 user=me dbname=push") { pool, _ in
            let error = try await failure(of: pool)
            #expect(error.code == .unavailable)
            #expect(error.detail?.contains("/nowhere") == true)
            #expect(error.detail?.contains("Connection refused") == true)
        }
    }

    @Test("Connections pass a standby over, and use it after its promotion")
    func promotion() async throws {
        try await TestDatabase.slots.with {
            try await TestCluster.withStandby { pair in
                try await withPool(TestPair.url(pair.standbyURL, pair.primaryURL)) { pool, _ in
                    let standby = try await pool.write("SELECT pg_is_in_recovery()")
                    #expect(try #require(standby.first).decode(Bool.self) == false)

                    await pair.primary.stop(.immediate)
                    try await eventually("writes are unavailable") {
                        try await failure(of: pool).code == .unavailable
                    }
                    try await pair.standby.promote()
                    try await eventually("writes are available") {
                        (try? await pool.write("CREATE TABLE IF NOT EXISTS t ()")) != nil
                    }
                    try await eventually("transactions are available") {
                        (try? await pool.withTransaction { _ in true }) ?? false
                    }
                }
            }
        }
    }

    @Test("A server that turns read-only is unavailable for changes, and is used again when it accepts them")
    func readOnly() async throws {
        try await TestDatabase.slots.with {
            try await TestCluster.with { _, url in
                let writable = "\(url)&options=-cdefault_transaction_read_only%3Doff"
                try await withPool(url) { pool, _ in
                    try await withPool(writable) { admin, _ in
                        #expect(try await pool.write("SELECT 1").count == 1)
                        try await admin.write("ALTER SYSTEM SET default_transaction_read_only = on")
                        try await admin.write("SELECT pg_reload_conf()")
                        try await eventually("changes fail") {
                            guard (try? await pool.write("CREATE TABLE IF NOT EXISTS t ()")) == nil else {
                                return false
                            }
                            let error = try await failure(of: pool)
                            return error.code == .unavailable && error.sqlState == PostgresError.readOnlyTransaction
                        }
                        let error = try await postgresError {
                            try await pool.withTransaction { _ = try await $0.query("CREATE TABLE t2 ()") }
                        }
                        #expect(error.code == .unavailable)
                        // Reads continue. A read that changes something is a mistake, not an outage.
                        #expect(try await pool.read("SELECT 1").count == 1)
                        let mistake = try await postgresError { _ = try await pool.read("CREATE TABLE t3 ()") }
                        #expect(mistake.code == .server)

                        try await admin.write("ALTER SYSTEM RESET default_transaction_read_only")
                        try await admin.write("SELECT pg_reload_conf()")
                        try await eventually("changes succeed") {
                            (try? await pool.write("CREATE TABLE IF NOT EXISTS t ()")) != nil
                        }
                    }
                }
            }
        }
    }

    @Test("A commit whose wait for a synchronous standby is cancelled is unknown, not acknowledged")
    func cancelledCommit() async throws {
        try await TestDatabase.slots.with {
            try await TestCluster.withStandby(isSynchronous: true) { pair in
                try await withPool(pair.primaryURL) {
                    $0.statementTimeout = .seconds(600)
                } _: { pool, _ in
                    try await pool.write("CREATE TABLE t (id integer)")
                    await pair.standby.stop(.immediate)
                    let writes: [@Sendable () async throws -> Void] = [
                        { try await pool.write("INSERT INTO t VALUES (1)") },
                        { try await pool.withTransaction { _ = try await $0.query("INSERT INTO t VALUES (2)") } },
                        { try await pool.withConnection { try await $0.execute(text: "INSERT INTO t VALUES (3)") } },
                        {
                            try await pool.withConnection { session in
                                _ = try await session.copy("COPY t FROM STDIN") { writer in
                                    try await writer.write(Array("4\n".utf8))
                                }
                            }
                        },
                    ]
                    for (number, write) in writes.enumerated() {
                        let task = Task { try await write() }
                        try await eventually("the commit of write \(number) waits") {
                            try await pool.read("SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'").count == 1
                        }
                        let cancelled = try await pool.read(
                            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
                        )
                        #expect(cancelled.count == 1)
                        let error = try await postgresError { try await task.value }
                        #expect(error.code == .connectionLost)
                        #expect(error.detail?.contains("synchronous standby") == true)
                    }
                    // All are stored here, and on no standby.
                    #expect(try await pool.value(Int64.self, "SELECT count(*) FROM t") == 4)
                }
            }
        }
    }
}
