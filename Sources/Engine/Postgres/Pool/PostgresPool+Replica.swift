import Synchronization

// Reads from a replica.
extension PostgresPool {
    /// Says whether the replica is up to date. Until it is, all reads go to the primary. Callable from any thread.
    package func useReplica(_ isCurrent: Bool) {
        isReplicaCurrent.store(isCurrent, ordering: .relaxed)
    }

    /// Runs `body`, which only reads, with the pool of the replica; with this pool if there is no replica that is up to date, or
    /// if it fails.
    ///
    /// What it reads may be behind: it may be shown, but nothing may be decided by it, and a caller who has just changed
    /// something must not look for the change in it.
    ///
    /// - Throws: Errors of `body`.
    package func withReplica<Result: Sendable>(
        _ body: (PostgresPool) async throws -> Result
    ) async throws -> Result {
        guard let replica, isReplicaCurrent.load(ordering: .relaxed) else { return try await body(self) }
        do {
            return try await body(replica)
        } catch let error as PostgresError where error.mayConcernReplica {
            return try await body(self)
        }
    }

    /// Runs a statement that changes nothing as ``read(_:)`` does, on the replica if possible: see ``withReplica(_:)``.
    package func readFromReplica<Statement: PostgresStatement>(
        _ statement: Statement
    ) async throws -> [Statement.Row] {
        try await withReplica { try await $0.read(statement) }
    }
}

extension PostgresError {
    /// Whether the primary may answer although a replica has failed with this error: it is unreachable, it cancelled the
    /// statement because what it replayed removed rows that the statement reads (40001), or it has yet to replay a migration.
    ///
    /// A statement that takes too long is not repeated: it would keep the primary busy as well.
    fileprivate var mayConcernReplica: Bool {
        switch code {
        case .unavailable, .connectionLost, .server, .standby, .unsuitable, .decoding: true
        case .timedOut, .overloaded, .invalidParameter, .migration, .settings: false
        }
    }
}
