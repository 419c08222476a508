import Glibc
import PrivatePostgres

/// The PostgreSQL server that the tests of a process share. It is the server of `TEST_POSTGRES_URL`, or a private one
/// that is started on first use and ends with the process.
package enum SharedPostgres {
    package static var url: String {
        get async throws { try await started.value }
    }

    private static let started = Task.detached {
        if let url = getenv("TEST_POSTGRES_URL") { return String(cString: url) }
        let folder = try TemporaryFolder.make(in: hasMemory ? memory : "/tmp")
        let cluster = PostgresCluster(
            directory: "\(folder)/postgres",
            // Each server opens up to seven for each core, and some tests have three servers.
            settings: ["max_connections": "1000", "max_wal_size": "256MB"]
        )
        return try await cluster.start()
    }

    /// Linux's file system in memory. There, databases are created and dropped in a fraction of the time.
    private static let memory = "/dev/shm"
    private static let neededBytes = 4 << 30

    private static var hasMemory: Bool {
        var status = statvfs()
        return statvfs(memory, &status) == 0 && access(memory, W_OK) == 0
            && Int(status.f_bavail) * Int(status.f_frsize) >= neededBytes
    }
}
