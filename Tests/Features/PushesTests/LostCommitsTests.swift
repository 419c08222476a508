import EventLoop
import FoundationEssentials
import HTTPClient
import JSON
import KakaoAPI
import KakaoSandbox
import Locking
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
    private static let tables = ["pushes", "push_parts", "push_skipped", "push_claims", "push_batches", "push_counts"]

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
                try await service.database.addPhones(2001...2100, type: "apns")
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
                    #expect(users == counts(2100, sent: 2000, skipped: 100, mayRepeat: 2000))
                } else {
                    #expect(times == 2000)
                    #expect(users == counts(2100, uncertain: 2000, skipped: 100))
                }
                // The lists of skipped users were lost with the parts, and are stored again with them.
                let skipped = try await service.api.get("\(push)/users?state=skipped&format=text&reason=Test")
                #expect(skipped.text == (2001...2100).map { "\($0)\n" }.joined())
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
                #expect(try await ReportedLoss.of { try await store.restore(known, $0) }.missing == 3)
                let states = try await database.pool.read(
                    "SELECT number, state, may_repeat FROM push_batches WHERE push_id = $1 ORDER BY number",
                    [.uuid(push)]
                ).map { try $0.decode(Int32.self, String.self, Bool.self) }
                let presumed = delivery == .atLeastOnce ? ("waiting", true) : ("uncertain", false)
                #expect(states.map(\.0) == [3, 5, 6, 7])
                #expect(states.map(\.1) == [presumed.0, presumed.0, "waiting", presumed.0])
                #expect(states.map(\.2) == [presumed.1, presumed.1, false, presumed.1])
                // What is stored again is known.
                #expect(try await ReportedLoss.of { try await store.restore(known, $0) } == ReportedLoss())
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

    @Test("A lease that PostgreSQL loses is stored again at once, with the run that its server has compared")
    func lostLease() async throws {
        func adjust(_ settings: inout Settings) {
            // The next renewal is far away.
            settings.pushes.intervals.renewal = .seconds(3600)
        }
        try await withService(adjust) { service in
            _ = try await service.api.register(1, "token")
            let database = service.database
            try await eventually("the server has its leases") {
                try await database.count("work_leases WHERE checked_run IS NOT NULL") == 2
            }
            let run = try await database.text("SELECT database_run()")
            try await database.pool.withTransaction { transaction in
                // The comparison waits meanwhile.
                try await transaction.query("LOCK TABLE devices")
                try await database.pool.withTransaction { loss in
                    try await loss.query("DELETE FROM work_leases")
                    try await loss.query(Self.beginRun)
                }
                try await eventually("the lease is stored again") {
                    try await database.count("work_leases WHERE queue = 'pushes' AND checked_run = '\(run)'") == 1
                }
            }
            try await eventually("the run is compared") {
                try await database.count("work_leases WHERE checked_run = '00000002 1'")
                    == database.count("work_leases")
            }
        }
    }

    /// Inserts a push of three users, each a batch, of which none is claimed yet.
    private static func insertPush(_ push: UUID, _ database: TestDatabase, _ delivery: String) async throws {
        try await database.pool.write(
            """
            WITH push AS (
                INSERT INTO pushes (
                    id, state, audience, message, message_version, delivery, users, next_number, started_at, batch_users
                )
                VALUES ($1, 'sending', '{}', '{}', 'v1', $2, 3, 4, now(), 1)
            )
            INSERT INTO push_parts (push_id, number, batch_users, batches, ids, id_bytes)
            VALUES ($1, 1, 1, 3, '\\x010203', 1)
            """,
            [.uuid(push), .text(delivery)]
        )
    }

    /// What is left of the last claim of a process that was killed.
    enum LastClaim: CaseIterable {
        case stored
        case lost
        /// It was lost in a crash with `synchronous_commit = off`, which keeps the timeline.
        case lostInTimeline
    }

    @Test(
        "When a server that has compared nothing is gone, what is not sent yet is presumed sent, unless PostgreSQL has its last claim; a missing claim stops the sender",
        arguments: LastClaim.allCases
    )
    func killed(claim state: LastClaim) async throws {
        try await TestDatabase.with { database in
            let store = BatchStore(pool: database.pool)
            let commits = LostCommits(
                pool: database.pool,
                control: SenderControl(pool: database.pool, webhooks: WebhookNotice()),
                monitoring: Monitoring(),
                logger: quietLogger
            )
            let (push, lease) = (UUID(), UUID())
            try await store.acquire(lease, for: .seconds(20))
            try await Self.insertPush(push, database, "at_most_once")
            let claimed = try await store.claim([BatchStore.Share(pushID: push, batches: 1)], lease: lease)
            let claim = try #require(claimed.batches.first)
            let directory = try TemporaryFolder.make()
            // A process that is killed leaves its file.
            do {
                let file = try ClaimFile(in: directory, of: "pushes")
                await file.write(ClaimFile.Claim(lease: lease, claim.id))
            }
            if state != .lostInTimeline {
                try await database.pool.write("UPDATE work_leases SET checked_run = '00000000 1'")
            }
            try await database.pool.write("UPDATE work_leases SET ends_at = now() - interval '1 s'")
            if state != .stored {
                try await database.pool.write("DELETE FROM push_claims")
                try await database.pool.write("UPDATE push_parts SET claimed = 0")
            }
            try await ClaimFile.settle(in: directory, of: "messages") { #expect($0.isEmpty) }
            try await ClaimFile.settle(in: directory, of: "pushes") { claims in
                for claim in claims { try await store.settle(claim, commits) }
            }
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory).isEmpty)
            _ = try await store.reclaim(except: UUID())
            let uncertain = try await database.integer(
                "SELECT COALESCE(sum(users), 0)::bigint FROM push_counts WHERE state = 'uncertain'"
            )
            // Of the three users, one is in the claim that the server left.
            #expect(uncertain == (state == .stored ? 1 : 3))
            #expect(try await database.count("push_parts WHERE claimed = 3") == (state == .stored ? 0 : 1))
            let stops = try await database.count(
                "sender WHERE reason LIKE '%(1 claims)%' AND commits_lost_at IS NOT NULL"
            )
            #expect(stops == (state == .stored ? 0 : 1))
        }
    }

    @Test(
        "A lease of another run ends with a presumption if PostgreSQL can lose commits in it: on another timeline, or without synchronous_commit"
    )
    func presumption() async throws {
        for (run, setting, isPresumed) in [
            ("00000000 1", "on", true), ("00000002 0", "on", false), ("00000002 0", "off", true),
            ("00000002 1", "off", false),
        ] {
            try await TestDatabase.with { database in
                try await database.pool.write(Self.beginRun)
                try await database.pool.write(
                    """
                    INSERT INTO work_leases (id, queue, ends_at, process, checked_run)
                    VALUES (gen_random_uuid(), 'pushes', now() - interval '1 s', gen_random_uuid(), $1)
                    """,
                    [.text(run)]
                )
                let presumptions = try await database.pool.withTransaction { transaction in
                    try await transaction.query("SET LOCAL synchronous_commit = \(setting)")
                    let leases = try await transaction.query(FindExpiredLeases(queue: "pushes", own: UUID()))
                    return try await transaction.query(DeleteExpiredLeases(leases: leases))
                }
                #expect(presumptions == [isPresumed], "\(run), synchronous_commit = \(setting)")
            }
        }
    }

    @Test("A push whose beginning or approval is lost is presumed sent too; one whose time has not come is not")
    func lostBeginning() async throws {
        try await TestDatabase.with { database in
            try await database.pool.write(
                """
                INSERT INTO pushes (id, name, state, audience, message, message_version, send_at)
                VALUES (gen_random_uuid(), 'due', 'scheduled', '{}', '{}', 'v1', now() - interval '1 s'),
                    (gen_random_uuid(), 'preparing', 'preparing', '{}', '{}', 'v1', NULL),
                    (gen_random_uuid(), 'proposed', 'proposed', '{}', '{}', 'v1', NULL),
                    (gen_random_uuid(), 'later', 'scheduled', '{}', '{}', 'v1', now() + interval '1 hour')
                """
            )
            let store = BatchStore(pool: database.pool)
            try await database.pool.withTransaction { try await store.presumeUnfinished(in: $0) }
            let presumed = try await database.text(
                "SELECT string_agg(name, ' ' ORDER BY name) FROM pushes WHERE presumed_until IS NOT NULL"
            )
            #expect(presumed == "due preparing proposed")
        }
    }

    @Test(
        "A server that stops gives back no lease of a run that it has not compared, and keeps the file of its last claim"
    )
    func stop() async throws {
        try await TestDatabase.with { database in
            let store = BatchStore(pool: database.pool)
            for (run, isReleased) in [("NULL", true), ("database_run()", true), ("'00000000 1'", false)] {
                let lease = UUID()
                try await store.acquire(lease, for: .seconds(20))
                try await database.pool.write("UPDATE work_leases SET checked_run = \(run)")
                #expect(try await store.release(lease) == isReleased, "\(run)")
                // It may be lost.
                try await database.pool.write("DELETE FROM work_leases")
                #expect(try await !store.release(lease))
            }
        }
    }

    /// A batch with its own row in the database, and what a server knows of it.
    private struct RestoredBatch {
        let number: Int32
        let stored: String
        let claims: Int32
        let isSent: Bool
        /// Whether it is missing, and in which state it is afterwards.
        let isMissing: Bool
        let after: String
    }

    @Test(
        "A batch that Kakao has accepted is sent, whatever else the database knows of it; it is no loss if its lease ended before, or it was split since"
    )
    func accepted() async throws {
        // The state, the claims, and the lease; whether it may be repeated is always true.
        let batches = [
            // Three attempts without an answer are stored, the claim and the result of the fourth are not.
            RestoredBatch(
                number: 1,
                stored: "'waiting', 3, NULL",
                claims: 4,
                isSent: true,
                isMissing: true,
                after: "sent"
            ),
            // The result of the fourth is not.
            RestoredBatch(
                number: 2,
                stored: "'sending', 4, gen_random_uuid()",
                claims: 4,
                isSent: true,
                isMissing: true,
                after: "sent"
            ),
            // Another server has reclaimed it before the result was stored.
            RestoredBatch(
                number: 3,
                stored: "'waiting', 4, NULL",
                claims: 4,
                isSent: true,
                isMissing: false,
                after: "sent"
            ),
            RestoredBatch(
                number: 4,
                stored: "'failed', 5, NULL",
                claims: 4,
                isSent: true,
                isMissing: false,
                after: "failed"
            ),
            RestoredBatch(
                number: 5,
                stored: "'waiting', 4, NULL",
                claims: 4,
                isSent: false,
                isMissing: false,
                after: "waiting"
            ),
            // It was split after an attempt without an answer.
            RestoredBatch(
                number: 6,
                stored: "'waiting', 5, NULL",
                claims: 4,
                isSent: false,
                isMissing: false,
                after: "waiting"
            ),
        ]
        try await TestDatabase.with { database in
            let push = UUID()
            try await database.pool.write(
                """
                INSERT INTO pushes (id, state, audience, message, message_version, next_number, prepared_at, started_at)
                VALUES ($1, 'sending', '{}', '{}', 'v1', 8, now(), now())
                """,
                [.uuid(push)]
            )
            var known = KnownBatches()
            for batch in batches {
                try await database.pool.write(
                    """
                    INSERT INTO push_batches (push_id, number, user_ids, users, may_repeat, origin, state, claims, lease)
                    VALUES ($1, $2, '{1}', 1, true, \(batch.number == 6 ? "6" : "NULL"), \(batch.stored))
                    """,
                    [.uuid(push), .int32(batch.number)]
                )
                let claim = BatchClaim(
                    pushID: push,
                    number: batch.number,
                    userIDs: [1],
                    attempts: 4,
                    claims: batch.claims,
                    origin: nil,
                    lease: UUID(),
                    shared: nil
                )
                let error = KakaoError(kind: .refused(status: 503, code: nil, message: ""))
                known.record(batch.isSent ? .sent : .retry(after: .zero, mayRepeat: true, error), of: claim)
            }
            let store = BatchStore(pool: database.pool)
            let loss = try await ReportedLoss.of { try await store.restore(known, $0) }
            #expect(loss == ReportedLoss(missing: batches.count { $0.isMissing }))
            let states = try await database.pool.read("SELECT state FROM push_batches ORDER BY number").map {
                try $0.decode(String.self)
            }
            #expect(states == batches.map(\.after))
            #expect(try await ReportedLoss.of { try await store.restore(known, $0) } == ReportedLoss())
        }
    }

    @Test("A push that is lost entirely is named")
    func gone() async throws {
        try await TestDatabase.with { database in
            let push = UUID()
            var known = KnownBatches()
            let claim = BatchClaim(pushID: push, number: 3, claims: 1, origin: nil, lease: UUID(), shared: 1..<101)
            known.record(.sent, of: claim)
            let store = BatchStore(pool: database.pool)
            let loss = try await ReportedLoss.of { try await store.restore(known, $0) }
            #expect(loss == ReportedLoss(missing: 1, gone: ["push \(push.uuidString.lowercased())"]))
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
        // Retention may have deleted the push.
        let later = start + .seconds(600 + 12 * 3600)
        #expect(known.byPush(at: later).isEmpty)
    }
}
