import Endpoints
import FoundationEssentials
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Messages
@testable import Runtime
@testable import ServiceKit
@testable import Sharing

/// Receivers of messages when PostgreSQL loses commits.
@Suite struct LostReceiversTests {
    /// Stores a message to friends of user 1.
    private static func create(
        _ store: MessageStore,
        _ receivers: MessageReceivers = .friends(["a", "b"]),
        _ adjust: (inout NewMessage) -> Void = { _ in }
    ) async throws -> UUID {
        var message = NewMessage(sender: 1, receivers: receivers, content: .custom(7, args: nil))
        adjust(&message)
        return try await store.create(message, nil, response: [], now: Date()).id
    }

    /// The states of the receivers of a message, with `*` for those that may be repeated.
    private static func states(_ message: UUID, _ database: TestDatabase) async throws -> String {
        try await database.text(
            """
            SELECT string_agg(state || CASE WHEN may_repeat THEN '*' ELSE '' END, ' ' ORDER BY position)
            FROM message_receivers
            WHERE message_id = '\(message)'
            """
        )
    }

    private static func claim(_ message: UUID, _ position: Int32 = 0, claims: Int32 = 1) -> ReceiverClaim {
        ReceiverClaim(
            messageID: message,
            position: position,
            claims: claims,
            attempts: claims,
            lease: UUID(),
            uuid: "a",
            isAlone: false,
            lastCode: nil
        )
    }

    @Test(
        "When a server is gone that has not compared another timeline, every receiver who may have been claimed is presumed reached"
    )
    func presumption() async throws {
        try await TestDatabase.with { database in
            let store = MessageStore(pool: database.pool, quotas: MessageSettings().quotas)
            let once = try await Self.create(store)
            let often = try await Self.create(store) { $0.delivery = .atLeastOnce }
            let memo = try await Self.create(store, .me) { $0.delivery = .atLeastOnce }
            let later = try await Self.create(store) { $0.times.sendAt = Date() + 3600 }
            let unresolved = try await Self.create(store, .users([2])) { $0.delivery = .atLeastOnce }
            try await database.pool.write("UPDATE message_receivers SET state = 'sent', due_at = NULL WHERE uuid = 'b'")
            try await database.pool.write(
                "UPDATE message_receivers SET due_at = now() + interval '1 day' WHERE message_id = $1",
                [.uuid(later)]
            )
            try await database.pool.write(
                """
                INSERT INTO work_leases (id, queue, ends_at, process, checked_run)
                VALUES (gen_random_uuid(), 'messages', now() - interval '1 s', gen_random_uuid(), '00000000 1')
                """
            )
            #expect(try await store.reclaim(except: UUID()).isPresumed)
            #expect(try await Self.states(once, database) == "uncertain sent")
            #expect(try await Self.states(often, database) == "pending* sent")
            #expect(try await Self.states(memo, database) == "pending*")
            #expect(try await Self.states(later, database) == "pending sent")
            #expect(try await Self.states(unresolved, database) == "pending*")
            // One whose uuid is unknown waits for it.
            let due = try await database.text(
                "SELECT string_agg(DISTINCT message_id::text, ' ') FROM message_receivers WHERE due_at <= now() AND message_id <> '\(often)'"
            )
            #expect(due == memo.uuidString.lowercased())
        }
    }

    @Test("The last claim of a process that was killed is known to be stored or lost; of an erased receiver it is not")
    func lastClaim() async throws {
        try await TestDatabase.with { database in
            let store = MessageStore(pool: database.pool, quotas: MessageSettings().quotas)
            let message = try await Self.create(store)
            try await database.pool.write("UPDATE message_receivers SET claims = 2")
            for (claims, isStored) in [(1, true), (2, true), (3, false)] as [(Int32, Bool)] {
                let claim = ClaimFile.Claim(lease: UUID(), Self.claim(message, claims: claims).id)
                #expect(try await store.isStored(claim) == isStored)
            }
            #expect(try await store.isStored(ClaimFile.Claim(lease: UUID(), Self.claim(message, 5).id)) == nil)
            #expect(try await store.isStored(ClaimFile.Claim(lease: UUID(), Self.claim(UUID()).id)) == nil)
        }
    }

    @Test(
        "Whom Kakao has reached is sent, whatever else the database knows; that is no loss if the lease ended before, and a message of an erased sender is none"
    )
    func accepted() async throws {
        try await TestDatabase.with { database in
            let store = MessageStore(pool: database.pool, quotas: MessageSettings().quotas)
            let message = try await Self.create(store, .friends(["a", "b", "c"])) { $0.delivery = .atLeastOnce }
            // The claim and the result of the first are lost. The second was reclaimed. The third may have been reached.
            try await database.pool.write(
                "UPDATE message_receivers SET may_repeat = true, claims = CASE position WHEN 0 THEN 1 ELSE 2 END"
            )
            var known = KnownReceivers()
            let (gone, erased) = (UUID(), UUID())
            for position in Int32(0)...1 {
                known.record(.sent, of: Self.claim(message, position, claims: 2), from: 1)
            }
            known.record(.sent, of: Self.claim(gone), from: 2)
            known.record(.sent, of: Self.claim(erased), from: 3)
            try await database.pool.write(RecordErasure(userID: 3, erasedAt: nil))
            let loss = try await ReportedLoss.of { try await store.restore(known, $0) }
            #expect(loss == ReportedLoss(missing: 2, gone: ["message \(gone.uuidString.lowercased())"]))
            #expect(try await Self.states(message, database) == "sent* sent* pending*")
        }
    }
}
