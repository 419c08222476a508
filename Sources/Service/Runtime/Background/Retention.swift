import EventLoop
import Logging
import Postgres

/// The cleanup of a feature's tables: a background worker deletes old rows, in steps that are too small to delay other work.
///
/// ```swift
/// Retention(
///     "remove-old-audit-records",
///     .delete { DeleteOldAuditRecords(retentionDays: settings.retentionDays, limit: $0) }
/// )
/// ```
package struct Retention: Sendable {
    /// A part of a cleanup. A part that fails ends the cleanup, which starts again after the interval.
    package struct Part: Sendable {
        fileprivate let run: @Sendable (BackgroundWorker, PostgresPool) async throws -> Void

        /// Deletes all rows that are due, `rows` in each statement.
        ///
        /// - Parameter statement: Returns the statement that deletes up to the given number of rows.
        package static func delete<Statement: PostgresStatement>(
            _ rows: Int = 1000,
            with statement: @escaping @Sendable (Int) -> Statement
        ) -> Part where Statement.Row == Never {
            Part { worker, pool in
                try await worker.delete(inStepsOf: rows) { try await pool.write(statement(rows)) }
            }
        }

        /// Does what is not one statement. Work that takes long ends early if the worker is stopping.
        package static func run(
            _ body: @escaping @Sendable (BackgroundWorker, PostgresPool) async throws -> Void
        ) -> Part {
            Part(run: body)
        }
    }

    private let name: String
    private let interval: Duration
    private let parts: [Part]

    /// - Parameters:
    ///   - name: The name of the worker in log lines.
    ///   - parts: The parts of a cleanup, in order.
    package init(_ name: String, every interval: Duration = .seconds(600), _ parts: Part...) {
        self.name = name
        self.interval = interval
        self.parts = parts
    }

    /// Returns the worker that cleans up.
    ///
    /// The first cleanup is soon after the start, so that a server that is restarted often cleans up too.
    package func worker(on loop: LoopServices, pace: PollPace, logger: Logger) -> BackgroundWorker {
        BackgroundWorker(
            name,
            on: loop.loop,
            every: interval,
            firstAfter: min(.seconds(30), interval),
            pace: pace,
            failure: "Cleanup failed",
            logger: logger
        ) { [parts, pool = loop.pool] worker in
            for part in parts { try await part.run(worker, pool) }
            return nil
        }
    }
}

extension BackgroundWorker {
    /// Repeats a step until it deletes fewer than `rows` rows, or the server stops. A pause follows each full step.
    ///
    /// - Parameter step: Deletes up to `rows` rows, and returns their number.
    package func delete(inStepsOf rows: Int, _ step: () async throws -> Int) async throws {
        while !isStopping, try await step() == rows { try await loop.sleep(for: .milliseconds(100)) }
    }
}
