package import EventLoop
import Locking
import Synchronization

// Reads from a replica.
extension PostgresPool {
    /// Lets reads go to the replica until a time, unless it fails before. `nil` for none. Callable from any thread.
    ///
    /// - Parameter end: When it may be too far behind, if nothing else is heard of it.
    package func useReplica(until end: MonotonicTime?) {
        replicaEnd.withLock { $0 = end }
    }

    /// The number of reads that the replica failed and this pool answered instead. Callable from any thread.
    package var replicaFailures: Int { replicaFailureCount.load(ordering: .relaxed) }

    /// Runs `body`, which only reads, with the pool of the replica; with this pool if there is no replica that is up to date, or
    /// if it fails.
    ///
    /// The replica may be behind the primary. Show what it returns, but base no decision on it, and do not look there for a
    /// change that was made a moment ago.
    ///
    /// - Parameter body: Throws ``NotReplicated`` if the replica lacks what this pool has.
    /// - Throws: Errors of `body`.
    package func withReplica<Result: Sendable>(
        _ body: (PostgresPool) async throws -> Result
    ) async throws -> Result {
        guard let replica, replicaEnd.withLock({ $0.map { .now < $0 } ?? false }) else { return try await body(self) }
        do {
            return try await body(replica)
        } catch is NotReplicated {
        } catch let error as PostgresError where error.mayConcernReplica {
            replicaFailureCount.wrappingAdd(1, ordering: .relaxed)
            // Others do not wait for it as well. The next check may find that it responds again.
            if error.isSilence { useReplica(until: nil) }
        }
        return try await body(self)
    }

    /// Runs a statement that changes nothing as ``read(_:)`` does.
    ///
    /// - Parameter mayBeBehind: Whether the replica may run it: see ``withReplica(_:)``.
    package func read<Statement: PostgresStatement>(
        _ statement: Statement,
        mayBeBehind: Bool
    ) async throws -> [Statement.Row] {
        mayBeBehind ? try await withReplica { try await $0.read(statement) } : try await read(statement)
    }
}

/// A replica does not have yet what the primary has.
package struct NotReplicated: Error {
    package init() {}
}

extension PostgresError {
    /// Whether the primary may answer although the replica has failed with this error. The replica may be unreachable or slow,
    /// may lack a migration, or may have cancelled the statement to go on replaying (SQLSTATE 40001, 57014).
    fileprivate var mayConcernReplica: Bool {
        switch code {
        case .unavailable, .connectionLost, .timedOut, .overloaded, .server, .standby, .unsuitable, .decoding: true
        case .invalidParameter, .migration, .settings: false
        }
    }

    /// Whether the server did not respond at all.
    fileprivate var isSilence: Bool { sqlState == nil && code != .decoding }
}
