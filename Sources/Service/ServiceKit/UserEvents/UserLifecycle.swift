package import FoundationEssentials
import Locking
package import Postgres
package import Runtime

/// A change of a user's relation to the app at Kakao.
package struct UserEvent: Sendable {
    package enum Kind: Sendable {
        /// Tokens of the user were revoked.
        case tokensRevoked
        /// The user has left the app: unlinked it, or deleted the account.
        case left
    }

    /// The type of an event that a call to this server caused: the user was logged out.
    package static let logout = "logout"
    /// The type of an event that a call to this server caused: the user was unlinked.
    package static let unlinkCall = "unlink-call"

    package let userID: Int64
    package let kind: Kind
    /// The type of the event, in Kakao's words, or one of those above.
    package let type: String
    /// When it happened, by the database's clock.
    package let happenedAt: Date

    package init(userID: Int64, kind: Kind, type: String, happenedAt: Date) {
        self.userID = userID
        self.kind = kind
        self.type = type
        self.happenedAt = happenedAt
    }
}

/// Kakao's report of a push token that it could not deliver to.
package struct TokenFailure: Sendable {
    package let userID: Int64
    package let pushToken: String
    /// When the delivery failed, by Kakao's clock; the time of receipt if Kakao sends no time. Two reports with the
    /// same token and time are duplicates.
    package let date: Date
    package let receivedAt: Date

    package init(userID: Int64, pushToken: String, date: Date, receivedAt: Date) {
        self.userID = userID
        self.pushToken = pushToken
        self.date = date
        self.receivedAt = receivedAt
    }
}

/// The reactions of a feature to events of users.
package protocol UserObserver: Sendable {
    /// Carries out the effects of events in the transaction that stores them, in which no event comes twice.
    ///
    /// - Returns: What is to be done after the commit; `nil` for nothing.
    func apply(_ events: [UserEvent], in transaction: PostgresTransaction) async throws -> (@Sendable () -> Void)?

    /// Counts a failed delivery. Has no effect if it was counted before. Returns whether it was counted now.
    func record(_ failure: TokenFailure) async throws -> Bool

    /// Deletes all data of a user. Has no effect if there is none. Returns `false` if a part of it is still pending.
    func deleteData(ofUser userID: Int64) async throws -> Bool
}

extension UserObserver {
    package func apply(
        _ events: [UserEvent],
        in transaction: PostgresTransaction
    ) async throws -> (@Sendable () -> Void)? { nil }

    package func record(_ failure: TokenFailure) async throws -> Bool { false }

    package func deleteData(ofUser userID: Int64) async throws -> Bool { true }
}

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

        /// Carries out the effects of events in the transaction that stores them. Returns what is to be done after the
        /// commit.
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
