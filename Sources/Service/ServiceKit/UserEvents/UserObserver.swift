package import FoundationEssentials
package import Postgres

/// The reactions of a feature to events of users.
package protocol UserObserver: Sendable {
    /// Carries out the effects of events in the transaction that stores them, in which no event comes twice.
    ///
    /// - Returns: The action to run after the commit; `nil` for none.
    func apply(_ events: [UserEvent], in transaction: PostgresTransaction) async throws -> (@Sendable () -> Void)?

    /// Carries out what follows when users have added or blocked one of the company's KakaoTalk channels, in the transaction that stores
    /// it. The ids are Kakao's.
    func channelsChanged(of userIDs: Set<Int64>, in transaction: PostgresTransaction) async throws

    /// Counts a failed delivery. Has no effect if it was counted before. Returns whether it was counted now.
    func record(_ failure: TokenFailure) async throws -> Bool

    /// Deletes all data of a user. Has no effect if there is none. Returns `false` if a part of it is still pending.
    ///
    /// - Parameter erasedAt: When the user was erased, by the database's clock, if PostgreSQL has lost it: a device or an account that came
    ///   later stays. `nil` for now.
    func deleteData(ofUser userID: Int64, erasedAt: Date?) async throws -> Bool
}

extension UserObserver {
    package func apply(
        _ events: [UserEvent],
        in transaction: PostgresTransaction
    ) async throws -> (@Sendable () -> Void)? { nil }

    package func channelsChanged(of userIDs: Set<Int64>, in transaction: PostgresTransaction) async throws {}

    package func record(_ failure: TokenFailure) async throws -> Bool { false }

    package func deleteData(ofUser userID: Int64, erasedAt: Date?) async throws -> Bool { true }
}
