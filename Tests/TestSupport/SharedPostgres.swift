import Glibc
import PrivatePostgres

/// The PostgreSQL server that the tests of a process share. It is the server of `TEST_POSTGRES_URL`, or a private one
/// that is started on first use and ends with the process.
package enum SharedPostgres {
    /// Its URL. It is never stopped: a connection that takes long is one of a slow machine.
    package static var url: String {
        get async throws {
            let url = try await started.value
            return "\(url)\(url.contains("?") ? "&" : "?")connect_timeout=60"
        }
    }

    private static let started = Task.detached {
        if let url = getenv("TEST_POSTGRES_URL") { return String(cString: url) }
        let cluster = PostgresCluster(
            directory: "\(try TemporaryFolder.make())/postgres",
            // Each server opens up to seven for each core, and some tests have three servers.
            settings: ["max_connections": "1000", "max_wal_size": "256MB"]
        )
        return try await cluster.start()
    }
}
