import EventLoop
import Locking
import Logging
import Postgres

/// Whether PostgreSQL commits, judged by the renewals of this server's leases: the writes that an idle server makes anyway.
///
/// A database that can be read may still store nothing: it has become read-only, or commits wait for a synchronous standby
/// that is gone.
package final class CommitHealth: Sendable {
    /// The state of commits.
    package enum State: Sendable, Equatable {
        /// Commits succeed, as far as is known.
        case committing
        /// The database accepts no changes (SQLSTATE 25006).
        case readOnly
        /// Commits fail, or one takes longer than ``CommitRecord/patience``.
        case stalled
    }

    private struct Observed {
        var record = CommitRecord()
        var isReported = false
    }

    private let logger: Logger
    private let observed = Locked(Observed())

    package init(logger: Logger) {
        self.logger = logger
    }

    /// The state now.
    package var state: State { observed.withLock { $0.record.state(at: .now) } }

    /// Runs a write whose outcome shows whether PostgreSQL commits.
    ///
    /// - Throws: The error of `write`.
    func observe<Result>(_ write: () async throws -> Result) async throws -> Result {
        let number = observed.withLock { $0.record.begin(at: .now) }
        do {
            let result = try await write()
            let isRecovered = observed.withLock { observed in
                observed.record.committed(number)
                guard observed.isReported, observed.record.state(at: .now) == .committing else { return false }
                observed.isReported = false
                return true
            }
            if isRecovered { logger.notice("Database commits again") }
            return result
        } catch {
            failed(number, error)
            throw error
        }
    }

    /// Records that nothing can be stored, before there is a lease.
    package func recordFailure(_ error: PostgresError) {
        failed(observed.withLock { $0.record.begin(at: .now) }, error)
    }

    private func failed(_ number: Int, _ error: any Error) {
        let isNew = observed.withLock { observed in
            guard !(error is CancellationError) else {
                observed.record.cancelled(number)
                return false
            }
            let isReadOnly = (error as? PostgresError)?.sqlState == PostgresError.readOnlyTransaction
            observed.record.failed(number, isReadOnly: isReadOnly)
            guard !observed.isReported, observed.record.state(at: .now) != .committing else { return false }
            observed.isReported = true
            return true
        }
        if isNew { logger.warning("Database does not commit", metadata: ["error": "\(String(reflecting: error))"]) }
    }
}

/// The commits of a server that show whether PostgreSQL commits. Pure: its owner provides the clock.
///
/// A commit that fails or waits says nothing if one that began later has succeeded: it waits for a lock, or has lost its
/// connection.
struct CommitRecord {
    /// The time after which a commit counts as stalled. A healthy one takes some milliseconds, on a busy disk a second.
    static let patience = Duration.seconds(3)

    /// The time after a successful commit in which a failure says nothing. After an outage each event loop opens its
    /// connections at its own time, at most 1.2 s later.
    static let reopening = Duration.seconds(2)

    /// The times at which the commits in flight began, by their numbers.
    private var inFlight: [Int: MonotonicTime] = [:]
    private var count = 0
    /// The beginning of the commit that began latest of those that succeeded.
    private var committed: MonotonicTime?
    /// The commit that began latest of those that failed.
    private var failed: (begin: MonotonicTime, isReadOnly: Bool)?

    /// Begins a commit. Returns its number.
    mutating func begin(at now: MonotonicTime) -> Int {
        count += 1
        inFlight[count] = now
        return count
    }

    mutating func committed(_ number: Int) {
        guard let begin = inFlight.removeValue(forKey: number) else { return }
        committed = max(committed ?? begin, begin)
    }

    mutating func failed(_ number: Int, isReadOnly: Bool) {
        guard let begin = inFlight.removeValue(forKey: number) else { return }
        if failed.map({ begin >= $0.begin }) ?? true { failed = (begin, isReadOnly) }
    }

    /// Ends a commit whose outcome is unknown, since the server shuts down.
    mutating func cancelled(_ number: Int) {
        inFlight[number] = nil
    }

    func state(at now: MonotonicTime) -> CommitHealth.State {
        func isLatest(_ begin: MonotonicTime) -> Bool { committed.map { begin > $0 } ?? true }
        if let failed, committed.map({ failed.begin > $0 + Self.reopening }) ?? true {
            return failed.isReadOnly ? .readOnly : .stalled
        }
        let oldest = inFlight.values.filter(isLatest).min()
        return oldest.map { now - $0 >= Self.patience } ?? false ? .stalled : .committing
    }
}
