import Locking
package import Postgres
package import Runtime

/// A registry of what follows from changes that Kakao reports of users: the feature that stores the reports runs what the
/// others have registered.
package final class UserLifecycle: Sendable {
    private let observers = Locked<[@Sendable (LoopServices) -> any UserObserver]>([])

    package init() {}

    /// Adds an observer, which is made for each event loop. A feature calls it when it is made.
    package func register(_ make: @escaping @Sendable (LoopServices) -> any UserObserver) {
        observers.withLock { $0.append(make) }
    }

    /// Returns the observers of an event loop.
    package func observers(_ loop: LoopServices) -> Observers {
        Observers(observers.withLock { $0 }.map { $0(loop) })
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

        /// Counts a failed delivery. Returns whether it was counted now.
        package func record(_ failure: TokenFailure) async throws -> Bool {
            var isNew = false
            for observer in observers where try await observer.record(failure) { isNew = true }
            return isNew
        }

        /// Deletes all data of a user. Returns `false` if a part of it is still pending.
        package func deleteData(ofUser userID: Int64) async throws -> Bool {
            var isDone = true
            for observer in observers where !(try await observer.deleteData(ofUser: userID)) { isDone = false }
            return isDone
        }
    }
}
