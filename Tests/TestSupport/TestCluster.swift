package import PrivatePostgres
import Testing

/// A PostgreSQL server of a single test, which may stop it.
package enum TestCluster {
    /// Runs `body` with a new cluster and its URL, and stops the cluster afterwards.
    ///
    /// - Parameter settings: Settings of PostgreSQL.
    package static func with(
        _ settings: [String: String] = [:],
        _ body: (PostgresCluster, String) async throws -> Void
    ) async throws {
        let cluster = PostgresCluster(directory: try await copyOfTemplate(), settings: settings)
        try await run(cluster) { url in try await body(cluster, url) }
    }

    /// Runs `body` with a server and a hot standby of it, and stops both afterwards.
    ///
    /// - Parameter isSynchronous: Whether commits wait for the standby.
    package static func withStandby(
        isSynchronous: Bool = false,
        _ body: (TestPair) async throws -> Void
    ) async throws {
        let directory = try await copyOfTemplate()
        let primary = PostgresCluster(
            directory: try await copyOfTemplate(),
            settings: isSynchronous ? ["synchronous_standby_names": "standby"] : [:]
        )
        try await run(primary) { url in
            let standby = PostgresCluster(
                directory: directory,
                settings: [
                    "primary_conninfo":
                        "host=\(try #require(await primary.realDirectory)) user=postgres application_name=standby"
                ]
            )
            // Both are copies of the same cluster, which no transaction has changed since.
            try writeFile([], to: "\(directory)/data/standby.signal")
            try await run(standby) { standbyURL in
                try await body(TestPair(primary: primary, primaryURL: url, standby: standby, standbyURL: standbyURL))
            }
        }
    }

    private static func run(_ cluster: PostgresCluster, _ body: (String) async throws -> Void) async throws {
        let url = try await cluster.start()
        do {
            try await body(url)
        } catch {
            await cluster.stop(.immediate)
            throw error
        }
        await cluster.stop(.immediate)
    }

    private static func copyOfTemplate() async throws -> String {
        let directory = "\(try TemporaryFolder.make())/postgres"
        let copy = try await Program.run(["cp", "-a", template.value, directory])
        try #require(copy.status == 0, "\(copy.text)")
        return directory
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

/// A PostgreSQL server and a hot standby of it.
package struct TestPair: Sendable {
    package let primary: PostgresCluster
    package let primaryURL: String
    package let standby: PostgresCluster
    package let standbyURL: String

    /// The URL with both hosts, in the order given.
    package static func url(_ first: String, _ second: String) -> String {
        let hosts = [first, second].map { url in
            url.split(separator: "?")[1].split(separator: "&").first { $0.hasPrefix("host=") }?.dropFirst(5) ?? ""
        }
        return "postgresql://postgres@/postgres?host=\(hosts.joined(separator: ","))"
    }
}
