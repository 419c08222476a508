import FoundationEssentials
import HTTPClient
import JSON
import KakaoAPI
import KakaoSandbox
import Logging
import Postgres
import PrivatePostgres
import ServiceTesting
import TestSupport
import Testing

@testable import Pushes
@testable import Runtime
@testable import Server
@testable import Settings

/// Tests of a lease's guarantees when responses are lost, servers stall or the database is unavailable.
/// `scripts/prove delivery` proves them statement by statement.
@Suite(.timeLimit(.minutes(5))) struct LeaseTests {
    private static let intervals = WorkIntervals(lease: .seconds(2))

    private static func slowly(_ settings: inout Settings) {
        settings.kakao.maximumConcurrentRequests = 2
    }

    /// Delays the responses to sends until ``releaseSends(_:)``. Meanwhile the server sends as many batches as
    /// ``slowly(_:)`` allows at a time and holds no more than two further ones, so that the test can claim some, or reclaim
    /// the server's.
    private func holdSends(_ service: TestService) {
        _ = service.kakao.hold("send")
    }

    private func releaseSends(_ service: TestService) {
        service.kakao.endFaults()
    }

    /// Returns the lease for pushes of the only server.
    private static func lease(_ database: TestDatabase) async throws -> UUID {
        try await eventually("the server has a lease") {
            try await database.count("work_leases WHERE queue = 'pushes'") == 1
        }
        let text = try await database.text("SELECT id::text FROM work_leases WHERE queue = 'pushes'")
        return try #require(UUID(uuidString: text))
    }

    private static func id(_ push: String) throws -> UUID {
        try #require(UUID(uuidString: String(push.split(separator: "/").last ?? "")))
    }

    @Test(
        "Batches of a claim whose response was lost are sent once, while the server continues to claim",
        arguments: ["at_least_once", "at_most_once"]
    )
    func lostClaim(delivery: String) async throws {
        try await withService(Self.slowly, intervals: Self.intervals) { service in
            try await service.database.addPhones(1...3000)
            holdSends(service)
            let push = try await service.api.create(
                ["everyone": true],
                gcm(),
                ["delivery": .string(delivery)]
            )
            try await eventually("the first batches are sent") { service.kakao.sandbox.reached(marker: "m").sends == 2 }
            // The statement is committed under the server's lease, without the server's knowledge.
            let lost = try await BatchStore(pool: service.database.pool).claim(
                [BatchStore.Share(pushID: try Self.id(push), batches: 5)],
                lease: try await Self.lease(service.database)
            )
            #expect(!lost.batches.isEmpty)
            releaseSends(service)
            try await service.api.waitUntilDone(push, within: .seconds(60))
            #expect(try await service.api.users(push) == counts(3000, sent: 3000))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 3000)
            #expect(try await service.database.count("push_batches WHERE may_repeat") == 0)
            #expect(service.log.messages.contains("Work of a lost claim released"))
        }
    }

    @Test("Results are kept while the database is unavailable, and no user is reached twice")
    func outage() async throws {
        try await withClusterAndKakao { cluster, url, kakao in
            var settings = Settings.test(url, kakao: kakao.sandbox.url)
            settings.kakao.maximumConcurrentRequests = 8
            settings.pushes.intervals = Self.intervals
            let log = CollectedLog()
            try await RunningServer.with(settings, log: log) { api in
                let pool = try await Shared.pool(url)
                try await TestDatabase(url: url, pool: pool).addPhones(1...2000)
                await pool.shutdown()
                // The responses to the first requests arrive only after PostgreSQL has stopped.
                let hold = kakao.hold("send", times: 8)
                let push = try await api.create()
                try await eventually("requests are in flight") { kakao.requests("send") >= 8 }
                await cluster.stop(.immediate)
                let start = ContinuousClock.now
                kakao.release(hold)
                try await eventually("results wait to be stored") {
                    log.messages.contains("Results not stored: kept for a retry")
                }
                // The duration of four leases, with many attempts to store each result.
                try await eventually("the outage has lasted 8 s", within: .seconds(60)) {
                    start.duration(to: .now) > .seconds(8)
                }
                try await cluster.start()
                try await api.waitUntilDone(push, within: .seconds(60))
                // The connections of each loop are restored independently.
                try await eventually("the counts are correct") {
                    (try? await api.users(push)) == counts(2000, sent: 2000)
                }
                #expect(kakao.sandbox.reached(marker: "m").times == 2000)
            }
        }
    }

    @Test(
        "A server whose own lease has expired during a stall renews it, and no user is uncertain or reached twice",
        arguments: ["at_least_once", "at_most_once"]
    )
    func ownLeaseEnded(delivery: String) async throws {
        try await withService(Self.slowly, intervals: Self.intervals) { service in
            try await service.database.addPhones(1...1500)
            service.kakao.fail("send", .latency) { $0.milliseconds = 100 }
            let push = try await service.api.create(
                ["everyone": true],
                gcm(),
                ["delivery": .string(delivery)]
            )
            // The server has been looking for expired leases for a while, and does so again before it renews its own.
            for sends in [2, 6, 10] {
                try await eventually("some batches are sent") {
                    service.kakao.sandbox.reached(marker: "m").sends >= sends
                }
                try await service.database.endLeases()
            }
            try await service.api.waitUntilDone(push, within: .seconds(60))
            #expect(try await service.api.users(push) == counts(1500, sent: 1500))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1500)
            #expect(try await service.database.count("push_batches WHERE may_repeat") == 0)
        }
    }

    @Test("A server whose batches another server has reclaimed drops them, and claims only under a new lease")
    func takenOverByAnother() async throws {
        try await withService(Self.slowly, intervals: Self.intervals) { service in
            try await service.database.addPhones(1...3000)
            holdSends(service)
            let push = try await service.api.create(["everyone": true], gcm(), ["delivery": "at_most_once"])
            let lease = try await Self.lease(service.database)
            try await eventually("the first batches are sent") { service.kakao.sandbox.reached(marker: "m").sends == 2 }
            // The server may renew its lease in between, so this is repeated.
            let other = BatchStore(pool: service.database.pool)
            try await eventually("batches are reclaimed") {
                try await service.database.endLeases()
                return try await other.reclaim(except: UUID()).work.items > 0
            }
            releaseSends(service)
            try await service.api.waitUntilDone(push, within: .seconds(60))
            #expect(service.log.messages.contains { $0.hasPrefix("Lease lost") })
            let users = try await service.api.users(push)
            let uncertain = Int(users?["uncertain"]?.integer ?? 0)
            #expect(users == counts(3000, sent: 3000 - uncertain, uncertain: uncertain))
            // At any time, the server holds at most twice as many batches as requests in flight.
            #expect((1...400).contains(uncertain))
            let reached = service.kakao.sandbox.reached(marker: "m")
            #expect(reached.times == reached.users)
            // Users were reached by all batches except those that were not sent when the server noticed the loss.
            try await eventually("the log says that the lease was lost") {
                service.log.lines.contains { $0.message.hasPrefix("Lease lost") }
            }
            let line = service.log.lines.first { $0.message.hasPrefix("Lease lost") }
            let unsent = try #require(line?.metadata["unsent"].flatMap { Int($0) })
            #expect(reached.users == 3000 - 100 * unsent)
            #expect(try await service.database.count("work_leases WHERE id = '\(lease)'") == 0)
        }
    }

    @Test("Batches under a lease without a row are reclaimed")
    func orphans() async throws {
        try await withService(Self.slowly, intervals: Self.intervals) { service in
            try await service.database.addPhones(1...1000)
            holdSends(service)
            let push = try await service.api.create()
            try await eventually("the first batches are sent") { service.kakao.sandbox.reached(marker: "m").sends == 2 }
            let lease = UUID()
            let other = BatchStore(pool: service.database.pool)
            try await other.acquire(lease, for: .seconds(20))
            let claims = try await other.claim([BatchStore.Share(pushID: try Self.id(push), batches: 2)], lease: lease)
                .batches
            try await other.addRow(for: try #require(claims.first))
            try await service.database.pool.write("DELETE FROM work_leases WHERE id = $1", [.uuid(lease)])
            releaseSends(service)
            try await service.api.waitUntilDone(push, within: .seconds(60))
            let repeated = claims.flatMap(\.userIDs).count
            #expect(try await service.api.users(push) == counts(1000, sent: 1000, mayRepeat: repeated))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1000)
            #expect(try await service.database.count("\(claimedBatches) WHERE lease = '\(lease)'") == 0)
        }
    }

    @Test("A result that is stored again after its batch was claimed again does not affect the later claim")
    func repeatedResult() async throws {
        try await TestDatabase.with { database in
            let store = BatchStore(pool: database.pool)
            let (push, lease) = (UUID(), UUID())
            try await database.pool.write(
                """
                WITH push AS (
                    INSERT INTO pushes (id, state, audience, message, message_version, prepared_at, users, next_number)
                    VALUES ($1, 'sending', '{}', '{}', 'v1', now(), 4, 2)
                )
                INSERT INTO push_batches (push_id, number, user_ids, users, state)
                VALUES ($1, 1, '{1, 2, 3, 4}', 4, 'waiting')
                """,
                [.uuid(push)]
            )
            try await store.acquire(lease, for: .seconds(20))
            func claim() async throws -> [BatchClaim] {
                try await store.claim([BatchStore.Share(pushID: push, batches: 10)], lease: lease).batches
            }
            let first = try #require(try await claim().first)
            let rejection = KakaoError(kind: .refused(status: 400, code: .invalidParameter, message: "rejected"))
            try await store.split(first, .split(rejection), isRejectedRepeatedly: false)
            let halves = try await claim()
            #expect(halves.map(\.userIDs).sorted { $0[0] < $1[0] } == [[1, 2], [3, 4]])
            // If the response to the split was lost, it is repeated. One half has the attempts, number and lease of the
            // whole batch.
            try await store.split(first, .split(rejection), isRejectedRepeatedly: false)
            try await store.record(.failed(rejection), of: first)
            #expect(try await database.count("push_batches WHERE state = 'sending'") == 2)
            #expect(try await database.integer("SELECT sum(users) FROM push_batches") == 4)
            for half in halves { try await store.record(.sent, of: half) }
            #expect(try await database.integer("SELECT sum(users)::bigint FROM push_counts WHERE state = 'sent'") == 4)
        }
    }

    @Test("A sender without progress logs a warning and sets a metric until it makes progress again")
    func noProgress() async throws {
        try await withService(intervals: WorkIntervals(lease: .seconds(1))) { service in
            func failing() async throws -> Double {
                let text = try await service.api.get("/metrics").text
                let line = text.split(separator: "\n").first { $0.hasPrefix("kakao_push_sender_failing_seconds ") }
                return line.flatMap { Double($0.split(separator: " ")[1]) } ?? -1
            }
            try await service.database.addPhones([1])
            #expect(try await failing() == 0)
            try await service.database.pool.write("ALTER TABLE push_claims RENAME TO away")
            try await service.database.pool.write("ALTER TABLE work_leases RENAME TO leases_away")
            let push = try await service.api.create()
            try await eventually("a warning is logged") {
                service.log.lines.contains { $0.message == "Queue makes no progress" && $0.level == .warning }
            }
            #expect(try await failing() > 0)
            try await service.database.pool.write("ALTER TABLE leases_away RENAME TO work_leases")
            try await service.database.pool.write("ALTER TABLE away RENAME TO push_claims")
            try await service.api.waitUntilDone(push)
            try await eventually("the metric is back at 0") { try await failing() == 0 }
        }
    }
}
