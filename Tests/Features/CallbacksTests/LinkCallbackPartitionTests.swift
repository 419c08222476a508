import FoundationEssentials
import ServiceTesting
import Sharing
import TestSupport
import Testing

@testable import Callbacks
@testable import Postgres

/// `link_callbacks` as `deploy/partition-link-callbacks.sql` partitions it.
@Suite struct LinkCallbackPartitionTests {
    @Test("Retention and the erasure of a user change their rows, without reading those of all partitions")
    func partitioned() async throws {
        try await TestDatabase.with { database in
            try await database.pool.write(
                """
                INSERT INTO link_callbacks (key, id, chat_type, hash_chat_id, args, received_at)
                SELECT 'c' || n, overlay(uuid_v7_floor(at)::text placing lpad(n::text, 12, '0') from 25)::uuid, 'MemoChat', '',
                    jsonb_build_object('member', n), at
                FROM generate_series(1, 20000) AS n, LATERAL (SELECT now() - make_interval(hours => n, mins => 30) AS at) AS time
                """
            )
            let script = "\(TestFiles.repository)/deploy/partition-link-callbacks.sql"
            let result = try await Program.run(
                ["psql", "--no-psqlrc", "--quiet", database.url, "--set", "partitions=4", "--file", script]
            )
            try #require(result.status == 0, "\(result.text)")
            #expect(try await database.count("pg_inherits WHERE inhparent = 'link_callbacks'::regclass") == 4)
            #expect(try await database.count("link_callbacks") == 20_000)

            let deleted = try await database.rowsRead(
                by: DeleteOldLinkCallbacks.sql.text,
                types: "int, bigint",
                values: "100, 50"
            )
            #expect((50..<2000).contains(deleted))
            let erased = try await database.rowsRead(
                by: RemoveUserFromLinkCallbacks.sql.text,
                types: "uuid, text, text, bigint",
                values: "'00000000-0000-0000-0000-000000000000', 'member', '19990', 50"
            )
            #expect((50..<2000).contains(erased))

            try await RemoveUserFromLinkCallbacks.erase(19_990, fromArgument: "member", database.pool)
            #expect(try await database.count("link_callbacks WHERE NOT args ? 'member'") == 1)
            let delete = DeleteOldLinkCallbacks(retentionDays: 100, limit: 18_000)
            #expect(try await database.pool.write(delete) as Int == 17_601)
            #expect(try await database.count("link_callbacks WHERE received_at < now() - interval '100 days'") == 0)
        }
    }
}
