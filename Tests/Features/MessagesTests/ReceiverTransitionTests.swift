import FoundationEssentials
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Messages
@testable import Runtime
@testable import ServiceKit
@testable import Sharing

/// The state machine of a receiver, as ``ReceiverEvent`` describes it, against the statements and the database.
@Suite struct ReceiverTransitionTests {
    @Test(
        "Every event changes a receiver in the states that the table names, and in no other",
        arguments: ReceiverEvent.allCases
    )
    func walk(event: ReceiverEvent) async throws {
        try await TestDatabase.with { database in
            for state in ReceiverState.allCases {
                let receiver = StoredReceiver(database: database, state: state)
                try await receiver.insert(before: event)
                try await receiver.run(event)
                let after = try await receiver.readState()
                if event.before.contains(state) {
                    #expect(event.after.contains(after), "\(event) in \(state): \(after)")
                } else {
                    #expect(after == state, "\(event) in \(state)")
                }
            }
        }
    }

    @Test("A message ends by its first event, and keeps its state", arguments: MessageEvent.allCases)
    func end(event: MessageEvent) async throws {
        try await TestDatabase.with { database in
            for state in [StoredMessageState.active, .done, .canceled, .expired] {
                let receiver = StoredReceiver(database: database, state: event == .finish ? .sent : .pending)
                try await receiver.insert(before: .skip)
                try await database.pool.write("UPDATE messages SET state = $1", [.text(state.rawValue)])
                switch event {
                case .finish: _ = try await database.pool.write(FinishMessages(ids: [receiver.id])) as [UUID]
                case .cancel: _ = try await database.pool.write(CancelMessage(id: receiver.id)) as [Bool]
                case .expire: _ = try await database.pool.write(ExpireMessages(limit: 10)) as [Int64]
                }
                let after = try await database.text("SELECT state FROM messages WHERE id = '\(receiver.id)'")
                #expect(after == (state == .active ? event.after.rawValue : state.rawValue), "\(event) in \(state)")
                try await database.pool.write("DELETE FROM messages")
            }
        }
    }

    @Test("The result of an earlier claim, or of a claim under another lease, changes nothing")
    func superseded() async throws {
        try await TestDatabase.with { database in
            let receiver = StoredReceiver(database: database, state: .sending)
            try await receiver.insert(before: .accept)
            try await database.pool.write("UPDATE message_receivers SET claims = claims + 1")
            try await receiver.run(.accept)
            #expect(try await receiver.readState() == .sending)
            try await database.pool.write(
                "UPDATE message_receivers SET claims = claims - 1, lease = gen_random_uuid()"
            )
            try await receiver.run(.accept)
            #expect(try await receiver.readState() == .sending)
        }
    }
}

/// A message with one receiver in one of the states.
private struct StoredReceiver {
    let database: TestDatabase
    let state: ReceiverState
    let id = UUID()
    private let lease = UUID()
    private let quotas = MessageSettings().quotas

    init(database: TestDatabase, state: ReceiverState) {
        self.database = database
        self.state = state
    }

    private var pool: PostgresPool { database.pool }

    /// Inserts the message, as it is before an event.
    func insert(before event: ReceiverEvent) async throws {
        try await pool.write("DELETE FROM messages")
        try await pool.write("DELETE FROM message_quotas")
        try await pool.write("DELETE FROM work_leases")
        let isUnresolved = event == .resolve
        let delivery = event == .reclaim ? "at_least_once" : "at_most_once"
        try await pool.write(
            """
            INSERT INTO messages (
                id, sender, addressing, state, template_id, delivery, when_over_quota, expires_at, created_at, resolve_at
            )
            VALUES (
                $1, 1, 'users', $2, 7, $3, $4, CASE WHEN $6 THEN now() - interval '1 s' END, now() - interval '1 hour',
                CASE WHEN $5 THEN now() END
            )
            """,
            [
                .uuid(id), .text(event == .skipResult ? "canceled" : "active"), .text(delivery),
                .text(event == .exceed ? "fail" : "wait"), .bool(isUnresolved), .bool(event == .skip),
            ]
        )
        let isOpen = [.pending, .waiting].contains(state)
        try await pool.write(
            """
            INSERT INTO message_receivers (message_id, position, user_id, uuid, state, due_at, attempts, claims, lease)
            VALUES ($1, 0, 2, $2, $3, CASE WHEN $4 THEN now() END, 1, 1, $5)
            """,
            [
                .uuid(id), .text(isUnresolved ? nil : "u"), .text(state.rawValue), .bool(isOpen && !isUnresolved),
                .uuid(state == .sending ? lease : nil),
            ]
        )
        try await pool.write(AcquireLease(id: lease, queue: "messages", duration: .seconds(20)))
        if event == .wait || event == .exceed {
            try await pool.write(
                """
                INSERT INTO message_quotas (day, quota, sender, used)
                VALUES ((now() AT TIME ZONE 'Asia/Seoul')::date, 'sender', 1, 100)
                """
            )
        }
    }

    func readState() async throws -> ReceiverState {
        let text = try await database.text("SELECT state FROM message_receivers WHERE message_id = '\(id)'")
        return try #require(ReceiverState(rawValue: text))
    }

    func run(_ event: ReceiverEvent) async throws {
        let store = MessageStore(pool: pool, quotas: quotas)
        let claim = ReceiverClaim(
            messageID: id,
            position: 0,
            claims: 1,
            attempts: 1,
            lease: lease,
            uuid: "u",
            isAlone: false,
            lastCode: nil
        )
        let message = SendingMessage(
            id: id,
            sender: 1,
            addressing: .friends,
            content: .custom(7, args: nil),
            delivery: .atMostOnce,
            whenOverQuota: .wait
        )
        switch event {
        case .resolve: try await pool.write(ResolveReceivers(messageID: id, uuids: [(0, "u")]))
        case .exclude: try await pool.write(FailReceivers(messageID: id, refusal: Refusal(reason: .loginRequired)))
        case .claim, .wait, .exceed: _ = try await store.claim(requests: 1, under: lease)
        case .accept: try await store.record(.sent, of: claim)
        case .postpone, .skipResult:
            try await store.record(
                .retry(Refusal(reason: .unavailable), of: claim, after: nil, mayRepeat: false),
                of: claim
            )
        case .release: try await store.record(.notSent, of: claim)
        case .fail:
            try await store.record(
                ReceiverResult(Refusal(reason: .refusesMessages), of: claim, message, batch: 1),
                of: claim
            )
        case .loseResponse: try await store.record(.unknown(.noResponse, of: claim, message), of: claim)
        case .reclaim, .abandon:
            try await pool.withTransaction { _ = try await store.reclaim([lease], in: $0) }
        case .restore, .presume:
            var known = KnownReceivers()
            known.record(event == .restore ? .sent : .unknown(.noResponse, of: claim, message), of: claim, from: 1)
            _ = try await ReportedLoss.of { try await store.restore(known, $0) }
        case .skip: _ = try await pool.write(ExpireMessages(limit: 10)) as [Int64]
        }
    }
}
