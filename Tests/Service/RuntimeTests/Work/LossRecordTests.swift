import FoundationEssentials
import Locking
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Runtime

/// The record of commits that PostgreSQL has lost.
@Suite(.timeLimit(.minutes(5))) struct LossRecordTests {
    private static func commits(_ database: TestDatabase) -> LostCommits {
        LostCommits(
            pool: database.pool,
            control: SenderControl(pool: database.pool, webhooks: WebhookNotice()),
            monitoring: Monitoring(),
            logger: quietLogger
        )
    }

    /// Begins a new run of PostgreSQL, and waits until it is compared.
    private static func compareNewRun(_ database: TestDatabase, _ commits: LostCommits) async throws {
        let worker = Task { await commits.worker().run() }
        defer { worker.cancel() }
        try await eventually("the present run is known") { commits.checkedRun != nil }
        try await database.pool.write(
            "CREATE OR REPLACE FUNCTION database_run() RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'another' $$"
        )
        commits.checkNow()
        try await eventually("the run is compared") { commits.checkedRun == "another" }
    }

    private static func reason(_ database: TestDatabase) async throws -> String {
        try await database.text("SELECT reason FROM sender")
    }

    @Test("A loss stops the sender although a later check fails, after which nothing is missing any more")
    func laterFailure() async throws {
        try await TestDatabase.with { database in
            let commits = Self.commits(database)
            let attempts = Locked(0)
            commits.register("batches") { try await $0(attempts.withLock { $0 } == 0 ? 1 : 0, []) }
            commits.register("receivers") { _ in
                let attempt = attempts.withLock { attempts in
                    attempts += 1
                    return attempts
                }
                guard attempt > 1 else { throw PostgresError(.unavailable) }
            }
            try await Self.compareNewRun(database, commits)
            #expect(attempts.withLock { $0 } == 2)
            #expect(try await database.count("sender WHERE reason LIKE '%(1 batches)%'") == 1)
        }
    }

    @Test("What a check has reported counts once, although it fails before it has stored all of it again")
    func halfway() async throws {
        try await TestDatabase.with { database in
            let commits = Self.commits(database)
            let attempts = Locked(0)
            commits.register("registrations") { report in
                let attempt = attempts.withLock { attempts in
                    attempts += 1
                    return attempts
                }
                // The first attempt stores one of two, the second one finds the other, and the third nothing.
                try await report(max(0, 3 - attempt), [])
                guard attempt > 2 else { throw PostgresError(.connectionLost) }
            }
            try await Self.compareNewRun(database, commits)
            #expect(attempts.withLock { $0 } == 3)
            #expect(try await Self.reason(database).contains("(2 registrations)"))
        }
    }

    @Test("The sender is stopped before anything is stored again, and the reason has in the end all that was lost")
    func order() async throws {
        try await TestDatabase.with { database in
            let commits = Self.commits(database)
            let stops = Locked<[Int]>([])
            let gone = (1...21).map { "push \($0)" }
            commits.register("batches") { report in
                try await report(4, gone)
                let stopped = try await database.count("sender WHERE stopped_at IS NOT NULL")
                stops.withLock { $0.append(stopped) }
            }
            commits.register("registrations") { try await $0(2, []) }
            try await Self.compareNewRun(database, commits)
            #expect(stops.withLock { $0 } == [1])
            let reason = try await Self.reason(database)
            #expect(
                reason.hasPrefix(
                    "PostgreSQL has lost commits (4 batches, 2 registrations). Users of these were reached"
                )
            )
            #expect(reason.contains("push 1, push 2"))
            #expect(reason.contains("push 20 and 1 more. A repeated request"))
            #expect(!reason.contains("(4 batches)"))
        }
    }

    @Test("A loss while the sender is stopped is added to the reason, once for each server")
    func stopped() async throws {
        try await TestDatabase.with { database in
            let control = SenderControl(pool: database.pool, webhooks: WebhookNotice())
            try await control.stop(reason: "Maintenance.", by: "kim", recording: nil)
            let commits = Self.commits(database)
            commits.register("batches") { try await $0(1, []) }
            commits.register("registrations") { try await $0(1, []) }
            try await Self.compareNewRun(database, commits)
            try await control.recordLoss(reason: "Another server's.", replacing: nil, by: "push-server")
            // Its response was lost.
            try await control.recordLoss(reason: "Another server's.", replacing: nil, by: "push-server")
            let reason = try await Self.reason(database)
            #expect(reason.hasPrefix("Maintenance. PostgreSQL has lost commits (1 batches, 1 registrations)."))
            #expect(reason.hasSuffix("start the sender. Another server's."))
            #expect(try await database.text("SELECT stopped_by FROM sender") == "kim")
            #expect(try await database.count("sender WHERE commits_lost_at IS NOT NULL") == 1)
        }
    }

    @Test(
        "After a new run of PostgreSQL nothing is claimed for some seconds, since the lease of another server may be lost; at first nothing waits"
    )
    func wait() async throws {
        try await TestDatabase.with { database in
            @Sendable func isChecked() async throws -> Bool {
                try await database.count("sender WHERE commits_are_checked('pushes')") == 1
            }
            #expect(try await isChecked())
            let commits = Self.commits(database)
            let (observed, waits) = (Locked(0), Locked<[Bool]>([]))
            commits.onNewRun { observed.withLock { $0 += 1 } }
            commits.register("batches") { _ in
                let isWaiting = try await !isChecked()
                waits.withLock { $0.append(isWaiting) }
            }
            try await Self.compareNewRun(database, commits)
            #expect(observed.withLock { $0 } == 1)
            #expect(waits.withLock { $0 } == [true])
            // Nothing depends on whether the seconds are over by now.
            try await database.pool.write("UPDATE sender SET run_seen_at = now() - interval '1 s'")
            #expect(try await !isChecked())
            try await database.pool.write("UPDATE sender SET run_seen_at = now() - interval '7 s'")
            #expect(try await isChecked())
            // The clock was set back.
            try await database.pool.write("UPDATE sender SET run_seen_at = now() + interval '1 hour'")
            #expect(try await isChecked())
        }
    }
}
