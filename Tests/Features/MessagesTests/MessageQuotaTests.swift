import FoundationEssentials
import HTTPServer
import JSON
import KakaoAPI
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Messages
@testable import Runtime
@testable import ServiceKit
@testable import Sharing

@Suite struct MessageQuotaTests {
    @Test("50 concurrent senders never exceed the limit of a pair, and what is released can be used again")
    func pair() async throws {
        try await TestDatabase.with { database in
            let quotas = QuotaReservations(pool: database.pool, quotas: MessageQuotaSettings())
            let reserved = try await reserveConcurrently(50, quotas)
            #expect(reserved.count == 20)
            for reservation in reserved.prefix(5) { try await quotas.release(["friend"], of: reservation) }
            #expect(try await reserveConcurrently(50, quotas).count == 5)
            #expect(try await database.integer("SELECT used FROM message_quotas WHERE quota = 'pair'") == 20)
            #expect(try await database.integer("SELECT used FROM message_quotas WHERE quota = 'app'") == 20)
            // What is not used any more leaves no row, whichever release is the last one.
            let last = try #require(reserved.last)
            try await withThrowingTaskGroup { group in
                for _ in 0..<20 { group.addTask { try await quotas.release(["friend"], of: last) } }
                try await group.waitForAll()
            }
            #expect(try await database.count("message_quotas") == 1)
            #expect(try await database.integer("SELECT used FROM message_quotas") == 0)
            #expect(try await reserveConcurrently(50, quotas).count == 20)
        }
    }

    private func reserveConcurrently(_ count: Int, _ quotas: QuotaReservations) async throws -> [MessageReservation] {
        try await withThrowingTaskGroup(of: MessageReservation?.self) { group in
            for _ in 0..<count {
                group.addTask {
                    do {
                        return try await quotas.reserve(["friend"], from: 1)
                    } catch let problem as Problem {
                        #expect(problem.kind == "message-quota-used-up")
                        #expect(problem.members["quota"]?.string == "pair")
                        return nil
                    }
                }
            }
            return try await group.reduce(into: []) { if let reservation = $1 { $0.append(reservation) } }
        }
    }

    @Test("A message is counted for the receivers with room, in their order; the others are named with the quota")
    func partial() async throws {
        try await TestDatabase.with { database in
            var settings = MessageQuotaSettings()
            settings.sender = 4
            settings.pair = 1
            let quotas = QuotaReservations(pool: database.pool, quotas: settings)
            _ = try await quotas.reserve(["b"], from: 1)
            let reservation = try await quotas.reserve(["a", "b", "c", "d", "e"], from: 1)
            #expect(reservation.uuids == ["a", "c", "d"])
            #expect(reservation.failures.map(\.code.rawValue) == [-532, -536])
            #expect(reservation.failures.map(\.receivers) == [["e"], ["b"]])
            #expect(try await database.integer("SELECT used FROM message_quotas WHERE quota = 'app'") == 4)
            #expect(try await database.count("message_quotas WHERE quota = 'pair'") == 4)
            // No message is counted if no receiver is left, nor for one that was left out.
            await #expect(throws: Problem.self) { try await quotas.reserve(["e"], from: 1) }
            try await quotas.release(reservation.uuids, of: reservation)
            #expect(try await database.integer("SELECT used FROM message_quotas WHERE quota = 'sender'") == 1)
        }
    }

    @Test("Servers that claim concurrently never exceed a limit; the rest waits for the next day")
    func claims() async throws {
        try await TestDatabase.with { database in
            let settings = MessageQuotaSettings()
            let store = MessageStore(pool: database.pool, quotas: settings)
            for _ in 0..<50 {
                let message = NewMessage(sender: 1, receivers: .friends(["friend"]), content: .custom(7, args: nil))
                _ = try await store.create(message, nil, response: [], now: Date() - 60)
            }
            try await withThrowingTaskGroup { group in
                for _ in 0..<5 {
                    group.addTask {
                        let lease = UUID()
                        try await store.acquire(lease, for: .seconds(60))
                        while try await !store.claim(requests: 1, under: lease).isEmpty {}
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await database.count("message_receivers WHERE state = 'sending'") == 20)
            let waiting = """
                message_receivers WHERE state = 'waiting' AND reason = 'pair_quota'
                    AND (due_at AT TIME ZONE 'Asia/Seoul')::date = (now() AT TIME ZONE 'Asia/Seoul')::date + 1
                """
            #expect(try await database.count(waiting) == 30)
        }
    }

    @Test(
        "A receiver without room behind others of the same claim is claimed later, or waits once the quota is used up"
    )
    func order() async throws {
        try await TestDatabase.with { database in
            var settings = MessageQuotaSettings()
            settings.sender = 3
            let store = MessageStore(pool: database.pool, quotas: settings)
            let message = NewMessage(
                sender: 1,
                receivers: .friends(["a", "b", "c", "d", "e"]),
                content: .custom(7, args: nil)
            )
            _ = try await store.create(message, nil, response: [], now: Date() - 60)
            let lease = UUID()
            try await store.acquire(lease, for: .seconds(60))
            let first = try await store.claim(requests: 16, under: lease)
            #expect(first.map(\.claim.position) == [0, 1, 2])
            #expect(try await database.count("message_receivers WHERE state = 'pending'") == 2)
            #expect(try await store.claim(requests: 16, under: lease).map(\.claim.position) == [-1])
            #expect(try await database.count("message_receivers WHERE state = 'waiting'") == 2)
        }
    }

    @Test("Kakao's word that a quota is used up holds for the day of the reservation, whatever is given back later")
    func usedUp() async throws {
        try await TestDatabase.with { database in
            let settings = MessageQuotaSettings()
            let store = MessageStore(pool: database.pool, quotas: settings)
            let quotas = QuotaReservations(pool: database.pool, quotas: settings)
            let message = NewMessage(
                sender: 1,
                receivers: .friends(["a", "b", "c"]),
                content: .custom(7, args: nil)
            )
            _ = try await store.create(message, nil, response: [], now: Date() - 60)
            let lease = UUID()
            try await store.acquire(lease, for: .seconds(60))
            _ = try await store.claim(requests: 1, under: lease)
            let claims = try await store.open(under: lease).sorted { $0.position < $1.position }
            let sending = SendingMessage(
                id: message.id,
                sender: 1,
                addressing: .friends,
                content: message.content,
                delivery: .atMostOnce,
                whenOverQuota: .wait
            )
            func record(_ reason: Reason, of index: Int) async throws {
                let result = ReceiverResult(Refusal(reason: reason), of: claims[index], sending, batch: 1)
                try await store.record(result, of: claims[index])
            }
            // The response to the first receiver came after midnight.
            try await database.pool.write("UPDATE message_receivers SET quota_day = quota_day - 1 WHERE position = 0")
            try await record(.senderQuota, of: 0)
            _ = try await quotas.reserve(["d"], from: 1)
            let isToday = "(due_at AT TIME ZONE 'Asia/Seoul')::date = (now() AT TIME ZONE 'Asia/Seoul')::date"
            #expect(try await database.count("message_receivers WHERE state = 'waiting' AND \(isToday)") == 1)
            try await record(.senderQuota, of: 1)
            await #expect(throws: Problem.self) { try await quotas.reserve(["d"], from: 1) }
            try await record(.refusesMessages, of: 2)
            await #expect(throws: Problem.self) { try await quotas.reserve(["d"], from: 1) }
        }
    }

    @Test("A receiver who changes while a claim waits is not claimed, and uses up no quota")
    func changed() async throws {
        try await TestDatabase.with { database in
            let store = MessageStore(pool: database.pool, quotas: MessageQuotaSettings())
            let message = NewMessage(sender: 1, receivers: .friends(["a", "b"]), content: .custom(7, args: nil))
            _ = try await store.create(message, nil, response: [], now: Date() - 60)
            let lease = UUID()
            try await store.acquire(lease, for: .seconds(60))
            let claim = try await database.pool.withTransaction { transaction in
                // A claim waits until a change of the sender's state is committed.
                try await transaction.query(text: "UPDATE sender SET stopped_at = NULL")
                let claim = Task { try await store.claim(requests: 16, under: lease) }
                let waiting = "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
                try await eventually("the claim waits") { try await database.count(waiting) == 1 }
                try await database.pool.write(
                    "UPDATE message_receivers SET due_at = due_at - interval '1 second' WHERE position = 0"
                )
                return claim
            }
            #expect(try await claim.value.map(\.claim.position) == [1])
            #expect(try await database.integer("SELECT used FROM message_quotas WHERE quota = 'sender'") == 1)
            #expect(try await store.claim(requests: 16, under: lease).map(\.claim.position) == [0])
            #expect(try await database.integer("SELECT used FROM message_quotas WHERE quota = 'sender'") == 2)
        }
    }

    @Test("A server claims receivers for the requests that it can make at once, and leaves the others")
    func requests() async throws {
        try await TestDatabase.with { database in
            let store = MessageStore(pool: database.pool, quotas: MessageQuotaSettings())
            for uuids in [["a", "b", "c", "d", "e", "f", "g"]] + (0..<10).map({ ["u\($0)"] }) {
                let message = NewMessage(sender: 1, receivers: .friends(uuids), content: .custom(7, args: nil))
                _ = try await store.create(message, nil, response: [], now: Date() - 60)
            }
            let lease = UUID()
            try await store.acquire(lease, for: .seconds(60))
            // Two requests for the first message, and one for each other.
            #expect(try await store.claim(requests: 4, under: lease).count == 7 + 2)
            #expect(try await database.count("message_receivers WHERE state = 'pending'") == 8)
        }
    }

    @Test("Messages to oneself have a quota of their own, and none of receivers")
    func memos() async throws {
        try await TestDatabase.with { database in
            var settings = MessageQuotaSettings()
            settings.memo = 2
            settings.receiver = 1
            let quotas = QuotaReservations(pool: database.pool, quotas: settings)
            _ = try await quotas.reserve(nil, from: 1)
            _ = try await quotas.reserve(nil, from: 1)
            await #expect(throws: Problem.self) { try await quotas.reserve(nil, from: 1) }
            _ = try await quotas.reserve(nil, from: 2)
        }
    }
}
