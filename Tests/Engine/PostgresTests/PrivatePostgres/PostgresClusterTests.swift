import FoundationEssentials
import Glibc
import Locking
import Postgres
import PrivatePostgres
import TestSupport
import Testing

/// Each test uses its own cluster.
@Suite struct PostgresClusterTests {
    private func answers(_ url: String) async throws -> Bool {
        let pool = PostgresPool(
            settings: try PostgresSettings(url: url),
            loop: try TestDatabase.loop(),
            logger: quietLogger
        )
        pool.start()
        let count = try? await pool.read("SELECT 1").count
        await pool.shutdown()
        return count == 1
    }

    @Test("A cluster is created on first use, is durable, keeps its data, and passes its output to the handler")
    func life() async throws {
        let lines = Locked<[String]>([])
        let cluster = PostgresCluster(directory: try TemporaryFolder.make() + "/postgres") { line in
            lines.withLock { $0.append(line) }
        }
        #expect(await cluster.url == nil)
        let settings = try PostgresSettings(url: try await cluster.start())
        try await cluster.start()
        #expect(lines.withLock { $0.contains { $0.contains("ready to accept connections") } })

        let pool = PostgresPool(settings: settings, loop: try TestDatabase.loop(), logger: quietLogger)
        pool.start()
        try await pool.write("CREATE TABLE t (n integer)")
        for (name, value) in [
            ("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on"), ("listen_addresses", ""),
            ("server_encoding", "UTF8"), ("lc_collate", "C"), ("data_checksums", "on"),
        ] {
            let setting = try await pool.value(String.self, "SELECT current_setting($1)", [.text(name)])
            #expect(setting == value, "\(name)")
        }
        try await cluster.restart()
        try await eventually("the table still exists") { (try? await pool.read("SELECT n FROM t").count) == 0 }
        await pool.shutdown()
        await cluster.stop()
        #expect(await cluster.processIdentifier == nil)
    }

    @Test("A server starts despite files of a killed server, and despite a lock that names another process")
    func staleLock() async throws {
        let cluster = PostgresCluster(directory: try TemporaryFolder.make() + "/postgres")
        try await cluster.start()
        let process = try #require(await cluster.processIdentifier)
        #expect(kill(process, SIGKILL) == 0)
        try await eventually("the cluster notices the end of its server") { await cluster.processIdentifier == nil }
        var url = try await cluster.start()
        #expect(try await answers(url))
        await cluster.stop(.immediate)

        // In a container, process numbers start again from 1. This process stands for a live one that is not a
        // PostgreSQL server.
        let root = try #require(await cluster.realDirectory)
        for lock in ["\(root)/data/postmaster.pid", "\(root)/.s.PGSQL.5432.lock"] {
            try Data("\(getpid())\n\(root)/data\n".utf8).write(to: URL(filePath: lock))
        }
        url = try await cluster.start()
        #expect(try await answers(url))
        await cluster.stop()
    }

    @Test("A second server is not started on the same cluster")
    func twice() async throws {
        let directory = try TemporaryFolder.make() + "/postgres"
        let cluster = PostgresCluster(directory: directory)
        let url = try await cluster.start()
        let other = PostgresCluster(directory: directory)
        let error = await #expect(throws: PrivatePostgresError.self) { try await other.start() }
        #expect(error?.message.contains("already runs") == true)
        #expect(try await answers(url))
        await cluster.stop()
    }

    @Test("Invalid settings are an error that names the setting")
    func wrongSettings() async throws {
        let cluster = PostgresCluster(
            directory: try TemporaryFolder.make() + "/postgres",
            settings: ["no_such_setting": "1"]
        )
        let error = await #expect(throws: PrivatePostgresError.self) { try await cluster.start() }
        #expect(error?.description.contains("no_such_setting") == true)
    }

    @Test("A path that is too long for a socket becomes a link to a shorter one")
    func longPath() async throws {
        let parent = try TemporaryFolder.make()
        let directory = "\(parent)/\(String(repeating: "long-", count: 30))/postgres"
        try await expectLink(directory)
    }

    @Test(
        "In a directory that only root can enter, the cluster is a link to a directory that its user can enter",
        .enabled(if: geteuid() == 0)
    )
    func rootOnly() async throws {
        let parent = try TemporaryFolder.make(mode: 0o700)
        try await expectLink("\(parent)/clone/.local/postgres")
    }

    private func expectLink(_ directory: String) async throws {
        let cluster = PostgresCluster(directory: directory)
        let url = try await cluster.start()
        let real = try #require(await cluster.realDirectory)
        TemporaryFolder.removeAtExit(real)
        #expect(real.hasPrefix("/var/tmp/"))
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: directory) == real)
        #expect(try await answers(url))
        await cluster.stop()

        // The same directory the next time, and a new one if the directory was deleted.
        let next = PostgresCluster(directory: directory)
        try await next.start()
        #expect(await next.realDirectory == real)
        await next.stop()
        try FileManager.default.removeItem(atPath: real)
        let last = PostgresCluster(directory: directory)
        try await last.start()
        let fresh = try #require(await last.realDirectory)
        TemporaryFolder.removeAtExit(fresh)
        #expect(fresh != real)
        await last.stop()
    }
}
