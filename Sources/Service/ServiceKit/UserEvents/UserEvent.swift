package import FoundationEssentials
package import Postgres

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

extension SQL {
    /// A query that calls a function of SQL with each user id and time of departures, whose ``Swift/Array/parameters`` it takes, and returns
    /// the sum of its results. The users come in the order of their ids, so that concurrent notices take their locks in one order.
    package static func sumOverDepartures(_ function: SQL) -> SQL {
        """
        SELECT COALESCE(sum(\(function)(user_id, left_at)), 0)::bigint
        FROM (
            SELECT user_id, left_at
            FROM unnest($1::bigint[], $2::timestamptz[]) AS departure (user_id, left_at)
            ORDER BY user_id
            OFFSET 0
        ) AS departure
        """
    }
}

extension [UserEvent] {
    /// The user ids and times, as ``Postgres/SQL/sumOverDepartures(_:)`` takes them.
    package var parameters: [PostgresValue] { [.int64s(map(\.userID)), .timestamps(map(\.happenedAt))] }
}
