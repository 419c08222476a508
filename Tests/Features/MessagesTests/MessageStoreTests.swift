import FoundationEssentials
import ServiceTesting
import TestSupport
import Testing

@testable import Messages
@testable import Postgres
@testable import ServiceKit
@testable import Sharing

/// Statements over whole messages.
@Suite struct MessageStoreTests {
    @Test(
        "10,000 users of a message are found among the sender's friends by their key, not by comparing each with each"
    )
    func resolve() async throws {
        try await TestDatabase.with { database in
            let store = MessageStore(pool: database.pool, quotas: MessageQuotaSettings())
            let small = NewMessage(sender: 1, receivers: .users([1]), content: .custom(7, args: nil))
            _ = try await store.create(small, nil, response: [], now: Date())
            // PostgreSQL's statistics lag behind a large message.
            try await database.pool.write("ANALYZE messages, message_receivers")
            let message = NewMessage(sender: 1, receivers: .users(Array(1...10_000)), content: .custom(7, args: nil))
            _ = try await store.create(message, nil, response: [], now: Date())
            let users = try await database.pool.read(ReadUnresolvedUsers(messageID: message.id))
            #expect(users.count == 10_000)
            let uuids = users.map { (position: $0.position, uuid: $0.id.isMultiple(of: 2) ? "u\($0.id)" : nil) }
            let resolve = ResolveReceivers(messageID: message.id, uuids: uuids)
            let positions = uuids.map { "\($0.position)" }.joined(separator: ",")
            let names = uuids.map { $0.uuid ?? "NULL" }.joined(separator: ",")
            let read = try await database.rowsRead(
                by: ResolveReceivers.sql.text,
                types: "uuid, int[], text[]",
                values: "'\(message.id)', '{\(positions)}', '{\(names)}'"
            )
            #expect((10_000...1_000_000).contains(read))
            let found = try await database.pool.write(resolve)
            #expect(found.count == 10_000 && found.count { $0 } == 5000)
            #expect(try await database.count("message_receivers WHERE uuid = 'u' || user_id") == 5000)
            #expect(try await database.count("message_receivers WHERE reason = 'not_in_friends_list'") == 5000)
        }
    }

    @Test("A message whose last open receiver is erased ends")
    func erasure() async throws {
        try await TestDatabase.with { database in
            let store = MessageStore(pool: database.pool, quotas: MessageQuotaSettings())
            let message = NewMessage(sender: 1, receivers: .users([2]), content: .custom(7, args: nil))
            _ = try await store.create(message, nil, response: [], now: Date())
            try await store.endAbandoned()
            #expect(try await database.count("messages WHERE state = 'done'") == 0)
            try await database.pool.write(DeleteReceiversOfUser(userID: 2))
            try await store.endAbandoned()
            #expect(try await database.count("messages WHERE state = 'done'") == 1)
        }
    }

    @Test("An old message is deleted with its receivers; a newer and an unfinished one stay")
    func retention() async throws {
        try await TestDatabase.with { database in
            let store = MessageStore(pool: database.pool, quotas: MessageQuotaSettings())
            for days in [nil, 1, 3] as [Int32?] {
                let message = NewMessage(sender: 1, receivers: .friends(["a", "b"]), content: .custom(7, args: nil))
                _ = try await store.create(message, nil, response: [], now: Date())
                guard let days else { continue }
                try await database.pool.write(
                    "UPDATE messages SET state = 'done', finished_at = now() - make_interval(days => $2) WHERE id = $1",
                    [.uuid(message.id), .int32(days)]
                )
            }
            #expect(try await database.pool.write(DeleteOldMessages(days: 2, limit: 10)) as Int == 1)
            #expect(try await database.count("messages") == 2)
            #expect(try await database.count("message_receivers") == 4)
        }
    }
}
