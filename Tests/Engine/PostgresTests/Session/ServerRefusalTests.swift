import EventLoop
import PrivatePostgres
import TestSupport
import Testing

@testable import Postgres

/// Servers that cannot be used, and the words for them.
@Suite struct ServerRefusalTests {
    @Test("A database that is not in UTF-8 is refused, and the error says how to create one")
    func encoding() async throws {
        try await TestDatabase.slots.with {
            try await TestCluster.with { _, url in
                try await withPool(try PostgresSettings(url: url)) { admin in
                    try await admin.write("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
                }
                let settings = try PostgresSettings(url: url.replacing("@/postgres", with: "@/latin"))
                try await withPool(settings) { pool in
                    let words = "the encoding LATIN1 cannot store every text: create the database with ENCODING 'UTF8'"
                    try await expectRefusal(pool, .unsuitable, words)
                }
                let folder = try MigrationFolder(["0001_first.sql": "CREATE TABLE t ()"])
                let error = try await postgresError {
                    _ = try await Migrator(directory: folder.path).migrate(
                        settings: settings,
                        loop: try TestDatabase.loop(),
                        logger: quietLogger
                    )
                }
                #expect(error.code == .unsuitable)
                #expect(error.words.contains("LATIN1"))
            }
        }
    }

    @Test("A single standby is named as one, and used as soon as it is promoted")
    func standby() async throws {
        try await TestDatabase.slots.with {
            try await TestCluster.with { cluster, url in
                try await cluster.becomeStandby()
                try await withPool(try PostgresSettings(url: url)) { pool in
                    try await expectRefusal(pool, .standby, "is a standby, which accepts no writes")
                    try await cluster.promote()
                    try await eventually("the session begins") { (try? await pool.write("SELECT 1")) != nil }
                }
            }
        }
    }

    @Test(
        "Of several hosts the primary is used, whatever the connection string requires of it",
        arguments: ["", "&target_session_attrs=primary", "&target_session_attrs=read-write"]
    )
    func severalHosts(attributes: String) async throws {
        try await TestDatabase.slots.with {
            try await TestCluster.with { standby, _ in
                try await standby.becomeStandby()
                try await TestCluster.with { primary, url in
                    let hosts = try #require(await [standby.realDirectory, primary.realDirectory] as? [String])
                    let port = try #require(url.split(separator: "port=").last)
                    let list = "host=\(hosts.joined(separator: ","))&port=\(port)\(attributes)"
                    try await withPool(try PostgresSettings(url: "postgresql://postgres@/postgres?\(list)")) { pool in
                        // With and without the parameter that makes libpq take a server for a read-only one.
                        for result in [
                            try await pool.read("SHOW data_directory"), try await pool.write("SHOW data_directory"),
                        ] {
                            #expect(try result.first?.decode(String.self).hasPrefix(hosts[1]) == true)
                        }
                    }
                }
            }
        }
    }
}
