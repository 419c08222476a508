import EventLoop
import FoundationEssentials
import HTTPClient
import JSON
import KakaoAPI
import KakaoSandbox
import Locking
import Logging
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Pushes
@testable import Runtime
@testable import Server
@testable import Settings

/// Tests of what happens when PostgreSQL loses commits that it has confirmed. `scripts/prove outage failover` promotes a standby that
/// lags.
@Suite(.timeLimit(.minutes(5))) struct LostCommitsTests {
    /// The tables of a push.
    private static let tables = ["pushes", "push_parts", "push_claims", "push_batches", "push_counts"]

    /// Copies the push tables, as a standby that lags has them.
    private static func save(_ database: TestDatabase) async throws {
        for table in tables {
            try await database.pool.write("DROP TABLE IF EXISTS saved_\(table)")
            try await database.pool.write("CREATE TABLE saved_\(table) AS SELECT * FROM \(table)")
        }
    }

    /// Takes the push tables back to their copies, and begins another run of PostgreSQL, as the promotion of the standby does.
    private static func promote(_ database: TestDatabase) async throws {
        try await database.pool.withTransaction { transaction in
            for table in tables {
                try await transaction.query("DELETE FROM \(table)")
                try await transaction.query("INSERT INTO \(table) SELECT * FROM saved_\(table)")
            }
            try await transaction.query(beginRun)
        }
    }

    /// Makes `database_run()` return something else.
    private static let beginRun = """
        CREATE OR REPLACE FUNCTION database_run() RETURNS text LANGUAGE sql STABLE AS
        $$ SELECT '00000002 1' $$
        """

    private static func waitForLoss(_ service: TestService) async throws -> String {
        try await eventually("the sender is stopped") {
            try await service.database.count("sender WHERE stopped_at IS NOT NULL") == 1
        }
        return try await service.database.text("SELECT reason FROM sender")
    }

    private static func start(_ service: TestService) async throws {
        #expect(try await service.api.post("/v1/sender/start").status == 200)
    }

    @Test(
        "Batches whose results PostgreSQL loses are stored again, and nobody is sent to twice",
        arguments: ["at_least_once", "at_most_once"]
    )
    func results(delivery: String) async throws {
        try await withService { service in
            try await service.database.addPhones(1...3000)
            #expect(try await service.api.post("/v1/sender/stop", json: ["reason": "test"]).status == 200)
            let push = try await service.api.create(["everyone": true], gcm(), ["delivery": .string(delivery)])
            try await eventually("the push is prepared") {
                try await service.database.count("pushes WHERE prepared_at IS NOT NULL") == 1
            }
            try await Self.save(service.database)
            try await Self.start(service)
            try await service.api.waitUntilDone(push)
            let batches = try #require(try await service.api.shown(push)["batches"]?["total"]?.integer)

            try await Self.promote(service.database)
            let reason = try await Self.waitForLoss(service)
            #expect(reason.contains("PostgreSQL has lost commits (\(batches) batches)"))
            let metrics = try await service.api.metrics()
            #expect(metrics.value("kakao_push_lost_commits_total", ["object": "batches"]) == Double(batches))
            #expect(try await service.api.get("/v1/status").json?["sender"]?["state"] == "stopped")

            try await Self.start(service)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(3000, sent: 3000))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 3000)
        }
    }

    @Test("A push whose parts PostgreSQL loses is prepared again: its users are sent to again and marked, or uncertain")
    func parts() async throws {
        for delivery in ["at_least_once", "at_most_once"] {
            try await withService { service in
                try await service.database.addPhones(1...2000)
                let push = try await service.api.create(
                    ["everyone": true],
                    gcm(),
                    ["delivery": .string(delivery), "send_at": time(in: 86_400)]
                )
                // Nothing changes while it waits for its time.
                try await Self.save(service.database)
                try await service.database.pool.write("UPDATE pushes SET send_at = now()")
                try await service.api.waitUntilDone(push)
                try await Self.promote(service.database)
                _ = try await Self.waitForLoss(service)
                try await service.database.pool.write("UPDATE pushes SET send_at = now()")
                try await Self.start(service)
                try await service.api.waitUntilDone(push)
                let times = service.kakao.sandbox.reached(marker: "m").times
                let users = try await service.api.users(push)
                if delivery == "at_least_once" {
                    #expect(times == 4000)
                    #expect(users == counts(2000, sent: 2000, mayRepeat: 2000))
                } else {
                    #expect(times == 2000)
                    #expect(users == counts(2000, uncertain: 2000))
                }
            }
        }
    }

    @Test("A batch that was split keeps the halves apart: those that were sent are sent again and marked, or uncertain")
    func split() async throws {
        try await TestDatabase.with { database in
            for delivery in [Delivery.atLeastOnce, .atMostOnce] {
                let store = BatchStore(pool: database.pool)
                let (push, lease) = (UUID(), UUID())
                try await store.acquire(lease, for: .seconds(20))
                // The batch is as it was before it was split, or as another split has left it.
                try await database.pool.write(
                    """
                    WITH push AS (
                        INSERT INTO pushes (id, state, audience, message, message_version, delivery, next_number, prepared_at)
                        VALUES ($1, 'sending', '{}', '{}', 'v1', $2, 8, now())
                    )
                    INSERT INTO push_batches (push_id, number, user_ids, users, state, origin)
                    VALUES ($1, 3, '{1, 2}', 2, 'waiting', NULL), ($1, 5, '{3}', 1, 'waiting', 5), ($1, 7, '{4}', 1, 'waiting', 5),
                        ($1, 6, '{5}', 1, 'waiting', NULL)
                    """,
                    [.uuid(push), .text(delivery.rawValue)]
                )
                var known = KnownBatches()
                for (number, origin) in [(3, 3), (9, 3), (10, 5)] as [(Int32, Int32)] {
                    let claim = BatchClaim(
                        pushID: push,
                        number: number,
                        userIDs: [1],
                        attempts: 1,
                        claims: 1,
                        origin: origin,
                        lease: lease,
                        shared: nil
                    )
                    known.record(.sent, of: claim)
                }
                #expect(try await store.restore(known) == 3)
                let states = try await database.pool.read(
                    "SELECT number, state, may_repeat FROM push_batches WHERE push_id = $1 ORDER BY number",
                    [.uuid(push)]
                ).map { try $0.decode(Int32.self, String.self, Bool.self) }
                let presumed = delivery == .atLeastOnce ? ("waiting", true) : ("uncertain", false)
                #expect(states.map(\.0) == [3, 5, 6, 7])
                #expect(states.map(\.1) == [presumed.0, presumed.0, "waiting", presumed.0])
                #expect(states.map(\.2) == [presumed.1, presumed.1, false, presumed.1])
                // What is stored again is known.
                #expect(try await store.restore(known) == 0)
            }
        }
    }

    @Test("A new run of PostgreSQL that has lost nothing stops nothing")
    func switchover() async throws {
        try await withService { service in
            try await service.database.addPhones(1...1000)
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            try await service.database.pool.write(Self.beginRun)
            try await eventually("the leases have the new run") {
                try await service.database.count("work_leases WHERE checked_run = '00000002 1'")
                    == service.database.count("work_leases")
            }
            #expect(service.log.messages.contains("PostgreSQL was restarted or replaced: nothing is lost"))
            let second = try await service.api.create()
            try await service.api.waitUntilDone(second)
            #expect(service.kakao.sandbox.reached(marker: "m").times == 2000)
            #expect(try await service.database.count("sender WHERE stopped_at IS NOT NULL") == 0)
        }
    }

    @Test("What is missing stops the sender, even if a later check fails at first")
    func failedCheck() async throws {
        try await TestDatabase.with { database in
            let control = SenderControl(pool: database.pool)
            let monitoring = Monitoring()
            let commits = LostCommits(
                pool: database.pool,
                control: control,
                monitoring: monitoring,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
            let calls = Locked(0)
            commits.register("first") { calls.withLock { $0 == 0 ? 3 : 0 } }
            commits.register("second") {
                calls.withLock { $0 += 1 }
                if calls.withLock({ $0 }) == 1 { throw PostgresError(.decoding) }
                return 0
            }
            let worker = commits.worker()
            let running = Task { await worker.run() }
            try await eventually("the first run is read") { commits.checkedRun != nil }
            try await database.pool.write(Self.beginRun)
            commits.checkNow()
            try await eventually("the sender is stopped") {
                commits.checkNow()
                return try await database.count("sender WHERE stopped_at IS NOT NULL AND commits_lost_at IS NOT NULL")
                    == 1
            }
            #expect(try await database.text("SELECT reason FROM sender").contains("(3 first)"))
            worker.stop()
            await running.value
            #expect(commits.checkedRun == "00000002 1")
        }
    }

    @Test("Nothing is claimed or prepared while a server has not compared a new run with what it knows")
    func unchecked() async throws {
        try await withService { service in
            try await service.database.addPhones(1...100)
            try await service.database.pool.write(
                """
                INSERT INTO work_leases (id, queue, ends_at, process, checked_run)
                VALUES (gen_random_uuid(), 'pushes', now() + interval '1 hour', gen_random_uuid(), '00000000 1')
                """
            )
            let push = try await service.api.create()
            let (pool, lease) = (service.database.pool, UUID())
            #expect(try await PreparationStore(pool: pool).due(limit: 10).isEmpty)
            let batches = BatchStore(pool: pool)
            try await batches.acquire(lease, for: .seconds(20))
            let share = BatchStore.Share(
                pushID: try #require(UUID(uuidString: String(push.split(separator: "/").last ?? ""))),
                batches: 1
            )
            let claimed = try await batches.claim([share], lease: lease)
            #expect(claimed.isLeaseValid && claimed.batches.isEmpty)
            #expect(try await service.database.count("push_parts") == 0)
            try await service.database.pool.write("UPDATE work_leases SET checked_run = database_run()")
            try await service.api.waitUntilDone(push)
        }
    }

    @Test(
        "When a server that has compared nothing is gone, what is not sent yet is presumed sent, unless PostgreSQL has its last claim",
        arguments: [false, true]
    )
    func killed(isClaimStored: Bool) async throws {
        try await TestDatabase.with { database in
            let store = BatchStore(pool: database.pool)
            let (push, lease) = (UUID(), UUID())
            try await store.acquire(lease, for: .seconds(20))
            try await database.pool.write(
                """
                WITH push AS (
                    INSERT INTO pushes (
                        id, state, audience, message, message_version, delivery, users, next_number, started_at, batch_users
                    )
                    VALUES ($1, 'sending', '{}', '{}', 'v1', 'at_most_once', 3, 4, now(), 1)
                )
                INSERT INTO push_parts (push_id, number, batch_users, batches, ids, id_bytes)
                VALUES ($1, 1, 1, 3, '\\x010203', 1)
                """,
                [.uuid(push)]
            )
            let claimed = try await store.claim([BatchStore.Share(pushID: push, batches: 1)], lease: lease)
            let claim = try #require(claimed.batches.first)
            let directory = try TemporaryFolder.make()
            // A process that is killed leaves its file.
            do {
                let file = try ClaimFile(in: directory)
                await file.write(ClaimFile.Claim(lease: lease, claim.id))
            }
            try await database.pool.write(
                "UPDATE work_leases SET checked_run = '00000000 1', ends_at = now() - interval '1 s'"
            )
            if !isClaimStored { try await database.pool.write("DELETE FROM push_claims") }
            try await ClaimFile.settle(in: directory) { try await store.settle($0) }
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory).isEmpty)
            _ = try await store.reclaim(except: UUID())
            let uncertain = try await database.integer(
                "SELECT COALESCE(sum(users), 0)::bigint FROM push_counts WHERE state = 'uncertain'"
            )
            // Of the three users, one is in the claim that the server left.
            #expect(uncertain == (isClaimStored ? 1 : 2))
            #expect(try await database.count("push_parts WHERE claimed = 3") == (isClaimStored ? 0 : 1))
        }
    }

    @Test("What is known is bounded, and the older half is forgotten after some minutes")
    func bounds() {
        var known = KnownBatches()
        let (push, start) = (UUID(), MonotonicTime.now)
        func record(_ number: Int32, at now: MonotonicTime) {
            let first = (number - 1) / 100 * 100 + 1
            let claim = BatchClaim(
                pushID: push,
                number: number,
                claims: 1,
                origin: nil,
                lease: UUID(),
                shared: first..<first + 100
            )
            known.record(.sent, of: claim, at: now)
        }
        for number in Int32(1)...150 { record(number, at: start) }
        #expect(Set(known.byPush[push]?.map(\.number) ?? []) == Set(1...150))
        record(201, at: start + .seconds(300))
        #expect(known.byPush[push]?.count == 151)
        record(301, at: start + .seconds(600))
        #expect(Set(known.byPush[push]?.map(\.number) ?? []) == [201, 301])
    }
}
