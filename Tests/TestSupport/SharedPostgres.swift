internal import Glibc
internal import PrivatePostgres

/// The PostgreSQL server that the tests of a process share. It is the server of `TEST_POSTGRES_URL`, or a private one
/// that is started on first use and ends with the process.
package enum SharedPostgres {
    package static var url: String {
        get async throws { try await started.value }
    }

    private static let started = Task.detached {
        if let url = getenv("TEST_POSTGRES_URL") { return String(cString: url) }
        let folder = try TemporaryFolder.make()
        return try await cluster(in: folder).start()
    }

    private static func cluster(in folder: String) -> PostgresCluster {
        PostgresCluster(directory: "\(folder)/postgres", settings: ["max_connections": "200"])
    }
}
