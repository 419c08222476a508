import FoundationEssentials
import Glibc

/// The location of PostgreSQL's server programs.
struct Installation: Sendable {
    let directory: String

    var initdb: String { "\(directory)/initdb" }
    var postgres: String { "\(directory)/postgres" }

    /// Finds the programs in the directory of `pg_config --bindir`, else in those of Debian and Ubuntu, newest version
    /// first.
    static func find(user: ServiceUser) async throws -> Installation {
        var candidates: [String] = []
        if let pgConfig = Program.find("pg_config") {
            candidates += try await Program(path: pgConfig, user: user).run(["--bindir"]).output
        }
        candidates += versions(in: "/usr/lib/postgresql").map { "/usr/lib/postgresql/\($0)/bin" }
        for candidate in candidates {
            let installation = Installation(directory: candidate)
            if access(installation.initdb, X_OK) == 0, access(installation.postgres, X_OK) == 0 { return installation }
        }
        throw PrivatePostgresError(
            "PostgreSQL's server programs were not found. On Debian and Ubuntu, run: apt-get install postgresql"
        )
    }

    private static func versions(in directory: String) -> [Int] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        return names.compactMap { Int($0) }.sorted(by: >)
    }
}
