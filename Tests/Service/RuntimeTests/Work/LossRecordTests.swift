import Endpoints
import EventLoop
import Locking
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Runtime

/// The record of commits that PostgreSQL has lost.
@Suite(.timeLimit(.minutes(5))) struct LossRecordTests {
    @Test("A loss stops the sender although a later check fails, after which nothing is missing any more")
    func laterFailure() async throws {
        try await TestDatabase.with { database in
            let commits = LostCommits(
                pool: database.pool,
                control: SenderControl(pool: database.pool),
                monitoring: Monitoring(),
                logger: quietLogger
            )
            let attempts = Locked(0)
            commits.register("batches") { attempts.withLock { $0 } == 0 ? 1 : 0 }
            commits.register("receivers") {
                let attempt = attempts.withLock { attempts in
                    attempts += 1
                    return attempts
                }
                guard attempt > 1 else { throw PostgresError(.unavailable) }
                return 0
            }
            let worker = Task { await commits.worker().run() }
            defer { worker.cancel() }
            try await eventually("the present run is known") { commits.checkedRun != nil }
            try await database.pool.write(
                "CREATE OR REPLACE FUNCTION database_run() RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'another' $$"
            )
            commits.checkNow()
            try await eventually("the run is compared") { commits.checkedRun == "another" }
            #expect(attempts.withLock { $0 } == 2)
            #expect(try await database.count("sender WHERE reason LIKE '%(1 batches)%'") == 1)
        }
    }
}
