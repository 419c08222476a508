package import PrivatePostgres
import Testing

/// A PostgreSQL server of a single test, which may stop it.
package enum TestCluster {
    /// Runs `body` with a new cluster and its URL, and stops the cluster afterwards.
    package static func with(_ body: (PostgresCluster, String) async throws -> Void) async throws {
        let directory = "\(try TemporaryFolder.make())/postgres"
        let copy = try await Program.run(["cp", "-a", template.value, directory])
        try #require(copy.status == 0, "\(copy.text)")
        let cluster = PostgresCluster(directory: directory)
        let url = try await cluster.start()
        do {
            try await body(cluster, url)
        } catch {
            await cluster.stop(.immediate)
            throw error
        }
        await cluster.stop(.immediate)
    }

    /// The directory of a cluster that has been stopped. A copy of it takes a tenth of the processor time of `initdb`.
    private static let template = Task.detached {
        let cluster = PostgresCluster(directory: "\(try TemporaryFolder.make())/postgres")
        try await cluster.start()
        await cluster.stop()
        return try #require(await cluster.realDirectory)
    }
}

extension PostgresCluster {
    /// Restarts the server as a standby that follows no primary.
    package func becomeStandby() async throws {
        try writeFile([], to: "\(try #require(realDirectory))/data/standby.signal")
        try await restart()
    }

    /// Makes a standby a primary.
    package func promote() async throws {
        let result = try await Program.run(["psql", try #require(url), "-Atc", "SELECT pg_promote()"])
        try #require(result.status == 0, "\(result.text)")
    }
}
