package import FoundationEssentials
import Locking
package import Postgres
package import Runtime

/// A registry of what follows from changes that Kakao reports of users: the feature that stores the reports runs what the
/// others have registered.
package final class UserLifecycle: Sendable {
    private let observers = Locked<[@Sendable (LoopServices) -> any UserObserver]>([])
    /// When users were erased in the last minutes, as PostgreSQL has confirmed.
    private let erasures = Locked(RecentValues<Int64, Date>(maximum: 20_000))
    /// The users whose lost erasure is recorded again, and has yet to be carried out.
    private let unfinishedErasures = Locked<Set<Int64>>([])

    package init() {}

    /// Adds an observer, which is made for each event loop. A feature calls it when it is made.
    package func register(_ make: @escaping @Sendable (LoopServices) -> any UserObserver) {
        observers.withLock { $0.append(make) }
    }

    /// Returns the observers of an event loop.
    package func observers(_ loop: LoopServices) -> Observers {
        Observers(observers.withLock { $0 }.map { $0(loop) })
    }

    /// Deletes all data of a user, and records it for ``restoreErasures(on:_:)``. Returns `false` if a part of it is still pending.
    package func erase(_ userID: Int64, _ observers: Observers, on loop: LoopServices) async throws -> Bool {
        try await recordErasure(of: userID, on: loop)
        let isDone = try await observers.deleteData(ofUser: userID, erasedAt: nil)
        // Again, after the deletions: if PostgreSQL loses one of them, it has lost this, too.
        try await recordErasure(of: userID, on: loop)
        return isDone
    }

    private func recordErasure(of userID: Int64, on loop: LoopServices) async throws {
        guard let erasedAt = try await loop.pool.write(RecordErasure(userID: userID, erasedAt: nil)).first else {
            return
        }
        erasures.withLock { $0.store(erasedAt, for: userID) }
    }

    /// Compares the erasures of the last minutes with the database, which may have lost them, and erases the users of lost ones again.
    ///
    /// - Parameter report: Records the number of erasures that are missing.
    package func restoreErasures(on loop: LoopServices, _ report: LostCommits.Report) async throws {
        let known = erasures.withLock { $0.all }
        guard !known.isEmpty else { return }
        let lost = try await loop.pool.read(FindLostErasures(erasures: known))
        try await report(lost.count, [])
        let observers = observers(loop)
        let users = unfinishedErasures.withLock { users in
            users.formUnion(lost)
            return users.sorted()
        }
        for userID in users {
            if let erasedAt = known[userID] {
                // Recorded first: another server then stores nothing of the user again that is not deleted here.
                try await loop.pool.write(RecordErasure(userID: userID, erasedAt: erasedAt))
                _ = try await observers.deleteData(ofUser: userID, erasedAt: erasedAt)
            }
            unfinishedErasures.withLock { _ = $0.remove(userID) }
        }
    }

    /// The observers of an event loop.
    package struct Observers: Sendable {
        private let observers: [any UserObserver]

        package init(_ observers: [any UserObserver]) {
            self.observers = observers
        }

        /// Carries out the effects of events in the transaction that stores them. Returns the actions to run after the commit.
        package func apply(
            _ events: [UserEvent],
            in transaction: PostgresTransaction
        ) async throws -> [@Sendable () -> Void] {
            var actions: [@Sendable () -> Void] = []
            for observer in observers {
                if let action = try await observer.apply(events, in: transaction) { actions.append(action) }
            }
            return actions
        }

        /// Carries out what follows when users have added or blocked one of the company's KakaoTalk channels, in the transaction that
        /// stores it.
        package func channelsChanged(of userIDs: Set<Int64>, in transaction: PostgresTransaction) async throws {
            guard !userIDs.isEmpty else { return }
            for observer in observers { try await observer.channelsChanged(of: userIDs, in: transaction) }
        }

        /// Counts a failed delivery. Returns whether it was counted now.
        package func record(_ failure: TokenFailure) async throws -> Bool {
            var isNew = false
            for observer in observers where try await observer.record(failure) { isNew = true }
            return isNew
        }

        /// Deletes all data of a user. Returns `false` if a part of it is still pending.
        package func deleteData(ofUser userID: Int64, erasedAt: Date?) async throws -> Bool {
            var isDone = true
            for observer in observers
            where !(try await observer.deleteData(ofUser: userID, erasedAt: erasedAt)) { isDone = false }
            return isDone
        }
    }
}
