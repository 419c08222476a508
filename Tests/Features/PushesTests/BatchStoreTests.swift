import FoundationEssentials
import KakaoAPI
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Pushes
@testable import Runtime

/// Tests of writes about batches that share a row, by servers that lose responses or leases.
@Suite(.timeLimit(.minutes(5))) struct BatchStoreTests {
    private static let rejection = KakaoError(kind: .refused(status: 400, code: .invalidParameter, message: "rejected"))

    /// A prepared push to the users from 1 on, which no server sends.
    private struct PreparedPush {
        let id = UUID()
        let database: TestDatabase
        let store: BatchStore
        let lease = UUID()

        static func with(
            users: Int,
            delivery: Delivery = .atLeastOnce,
            _ body: (PreparedPush) async throws -> Void
        ) async throws {
            try await TestDatabase.with { database in
                let push = PreparedPush(database: database, store: BatchStore(pool: database.pool))
                try await database.pool.write(
                    """
                    WITH push AS (
                        INSERT INTO pushes (id, state, audience, message, message_version, delivery, prepared_at, users, next_number)
                        VALUES ($1, 'sending', '{}', '{}', 'v1', $2, now(), $3, ($3 + 99) / 100 + 1)
                    )
                    INSERT INTO push_parts (push_id, number, batch_users, batches, ids, id_bytes)
                    SELECT $1, 1, 100, ($3 + 99) / 100, string_agg(int8send(id), '' ORDER BY id), 8
                    FROM generate_series(1, $3) AS id
                    """,
                    [.uuid(push.id), .text(delivery.rawValue), .int32(Int32(users))]
                )
                try await push.store.acquire(push.lease, for: .seconds(20))
                try await body(push)
            }
        }

        func claim(_ batches: Int) async throws -> [BatchClaim] {
            try await store.claim([BatchStore.Share(pushID: id, batches: batches)], lease: lease).batches
        }

        func settle(_ claims: some Sequence<BatchClaim>) async throws {
            try await store.recordSent(Array(claims))
        }

        /// Returns the number and state of each batch as it is shown.
        func shown(state: String? = nil, after: Int32 = 0, limit: Int = 1000) async throws -> [String] {
            let batches = try await PushReads(pool: database.pool).batches(
                of: id,
                state: state,
                after: after,
                limit: limit
            )
            return try #require(batches).map { "\($0.number) \($0.state)" }
        }

        /// Returns the users and batches that were counted in a state.
        func counted(_ state: String) async throws -> String {
            try await database.text(
                """
                SELECT COALESCE(sum(users), 0) || ' in ' || COALESCE(sum(batches), 0)
                FROM push_counts
                WHERE push_id = '\(id)' AND state = '\(state)'
                """
            )
        }
    }

    @Test("A push that is retried while its end is being stored is not ended")
    func retriedAtItsEnd() async throws {
        try await PreparedPush.with(users: 100) { push in
            try await push.settle(try await push.claim(1))
            let store = push.store
            let id = push.id
            let ended = try await push.database.pool.withTransaction { transaction in
                // The combined effect of another server's end of the push, a retry, and the reset of the batches.
                try await transaction.query("UPDATE pushes SET retry_end = NULL WHERE id = $1", [.uuid(id)])
                try await transaction.query("DELETE FROM push_counts WHERE push_id = $1", [.uuid(id)])
                let end = Task { try await store.finish([id]) }
                try await eventually("the end waits for the push") {
                    try await push.database.count(
                        "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
                    ) == 1
                }
                return end
            }
            #expect(try await ended.value.isEmpty)
            #expect(try await push.database.text("SELECT state FROM pushes") == "sending")
        }
    }

    @Test("A sent batch is counted once, even if it is written several times")
    func counted() async throws {
        try await PreparedPush.with(users: 24_950) { push in
            let claims = try await push.claim(1000)
            #expect(claims.count == 250)
            #expect(claims.map(\.userIDs.count) == Array(repeating: 100, count: 249) + [50])
            #expect(claims.flatMap(\.userIDs) == Array(1...24_950))
            #expect(Set(claims.map(\.shared)) == [1..<101, 101..<201, 201..<251])

            try await push.settle(claims[90..<110])
            #expect(try await push.counted("sent") == "2000 in 20")
            // If the server does not know whether that was committed, it writes them again, together with others.
            try await push.settle(claims[80..<120])
            #expect(try await push.counted("sent") == "4000 in 40")
            #expect(try await push.database.count("push_claims WHERE lease IS NULL") == 0)
            try await push.settle(claims)
            #expect(try await push.counted("sent") == "24950 in 250")
            #expect(try await push.database.count("push_claims WHERE lease IS NULL") == 3)
            try await push.settle(claims)
            #expect(try await push.counted("sent") == "24950 in 250")
            #expect(try await push.database.count("push_batches") == 0)
            #expect(try await push.store.finish([push.id]) == [push.id])
        }
    }

    @Test("A batch is shown in order and with its state, whichever table it is stored in")
    func shown() async throws {
        try await PreparedPush.with(users: 12_345) { push in
            let claims = try await push.claim(110)
            try await push.settle([claims[0], claims[2], claims[104]])
            let failed = claims[1]
            try await push.store.addRow(for: failed)
            try await push.store.record(.failed(Self.rejection), of: failed)

            let sent: Set = [1, 3, 105]
            let all = (1...124).map { number in
                let state =
                    number == 2 ? "failed" : sent.contains(number) ? "sent" : number <= 110 ? "sending" : "waiting"
                return "\(number) \(state)"
            }
            #expect(try await push.shown() == all)
            var pages: [String] = []
            while let page = try await push.shown(after: Int32(pages.count), limit: 7).nonEmpty { pages += page }
            #expect(pages == all)
            for state in ["sent", "failed", "sending", "waiting", "uncertain"] {
                #expect(try await push.shown(state: state) == all.filter { $0.hasSuffix(state) })
            }
            #expect(
                try await push.shown(state: "sending", after: 100, limit: 3) == [
                    "101 sending", "102 sending", "103 sending",
                ]
            )
            #expect(try await push.counted("failed") == "100 in 1")
        }
    }

    @Test(
        "Reclaiming the batches of a stopped server keeps sent ones and marks the others as possibly sent",
        arguments: [Delivery.atLeastOnce, .atMostOnce]
    )
    func takenOver(delivery: Delivery) async throws {
        try await PreparedPush.with(users: 12_345, delivery: delivery) { push in
            let claims = try await push.claim(1000)
            try await push.settle(claims[10..<120])
            try await push.store.addRow(for: claims[0])
            #expect(try await push.store.renew(push.lease, for: .seconds(20)) != nil)
            #expect(try await push.store.reclaim(except: UUID()) == (0, ReclaimedWork(), false))

            try await push.database.pool.write("UPDATE work_leases SET ends_at = now() - interval '1 s'")
            // A lease of another queue is for that queue to reclaim.
            let other = UUID()
            try await push.database.pool.write(
                "INSERT INTO work_leases VALUES ('\(other)', 'messages', now() - interval '1 s')"
            )
            // A server does not reclaim its own batches, because its lease is valid as long as the row exists.
            #expect(try await push.store.reclaim(except: push.lease) == (0, ReclaimedWork(), false))
            let uncertain = delivery == .atLeastOnce ? [:] : [push.id: 1345]
            let reclaimed = ReclaimedWork(items: 14, uncertain: uncertain)
            #expect(try await push.store.reclaim(except: UUID()) == (1, reclaimed, false))
            #expect(try await push.database.count("work_leases WHERE id = '\(other)'") == 1)
            let state = delivery == .atLeastOnce ? "waiting" : "uncertain"
            let left = (1...10).map { "\($0) \(state)" } + (121...124).map { "\($0) \(state)" }
            #expect(try await push.shown(state: state) == left)
            #expect(try await push.counted("sent") == "11000 in 110")
            #expect(try await push.counted("uncertain") == (delivery == .atLeastOnce ? "0 in 0" : "1345 in 14"))
            let repeated = "push_batches WHERE may_repeat AND attempts = 1 AND lease IS NULL"
            #expect(try await push.database.count(repeated) == (delivery == .atLeastOnce ? 14 : 0))

            // If the server is still running, its results have no effect now.
            #expect(try await push.store.renew(push.lease, for: .seconds(20)) == nil)
            try await push.settle(claims)
            for claim in claims[0..<2] {
                try await push.store.addRow(for: claim)
                try await push.store.record(.failed(Self.rejection), of: claim)
            }
            #expect(try await push.shown(state: state) == left)
            #expect(try await push.counted("sent") == "11000 in 110")
            #expect(try await push.counted("failed") == "0 in 0")

            // It cannot claim batches either.
            #expect(
                try await !push.store.claim([BatchStore.Share(pushID: push.id, batches: 100)], lease: push.lease)
                    .isLeaseValid
            )
            let lease = UUID()
            try await push.store.acquire(lease, for: .seconds(20))
            let again = try await BatchStore(pool: push.database.pool)
                .claim([BatchStore.Share(pushID: push.id, batches: 100)], lease: lease).batches
            #expect(again.map(\.number).sorted() == (delivery == .atLeastOnce ? Array(1...10) + Array(121...124) : []))
            #expect(again.allSatisfy { $0.shared == nil && $0.attempts == 2 })
        }
    }
}

extension Array {
    fileprivate var nonEmpty: Self? { isEmpty ? nil : self }
}
