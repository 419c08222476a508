import HTTPClient
import Journal
import Postgres
import Runtime
import ServiceKit
import ServiceLifecycle

/// The connections to PostgreSQL and Kakao, and the files of the journal. They close last, since the rest needs them.
struct ConnectionService: Service {
    /// The time that statements in flight have after everything else has ended.
    private static let databaseTime = Duration.seconds(2)

    let context: ServerContext

    func run() async throws {
        for pool in context.pools { pool.start() }
        try? await gracefulShutdown()
        await withDiscardingTaskGroup { group in
            for loop in context.loops { group.addTask { await loop.client.shutdown() } }
        }
        await withDiscardingTaskGroup { group in
            for pool in context.pools { group.addTask { await pool.shutdown(within: Self.databaseTime) } }
        }
        await context.journal?.close()
        await context.unverifiedEvents?.close()
    }
}
