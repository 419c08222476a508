import Endpoints
import FoundationEssentials
package import Postgres

/// Records that a user is erased. Returns when, unless a later erasure is recorded.
struct RecordErasure: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO erased_users AS erased (user_id, erased_at)
        VALUES ($1, COALESCE($2, now()))
        ON CONFLICT (user_id) DO UPDATE
        SET erased_at = excluded.erased_at
        WHERE erased.erased_at < excluded.erased_at
        RETURNING erased_at
        """

    let userID: Int64
    /// `nil` for now.
    let erasedAt: Date?

    var parameters: [PostgresValue] { [.int64(userID), .timestamp(erasedAt)] }
    static func decode(_ row: PostgresRow) throws -> Date { try row.decode(Date.self) }
}

/// Finds the users whose erasure is not recorded.
struct FindLostErasures: PostgresStatement {
    static let sql: SQL = """
        SELECT user_id
        FROM unnest($1::bigint[], $2::timestamptz[]) AS given (user_id, erased_at)
        WHERE NOT EXISTS (
                SELECT 1
                FROM erased_users
                WHERE erased_users.user_id = given.user_id
                    AND erased_users.erased_at >= given.erased_at
            )
        ORDER BY user_id
        """

    let erasures: [Int64: Date]

    var parameters: [PostgresValue] {
        let erasures = Array(erasures)
        return [.int64s(erasures.map(\.key)), .timestamps(erasures.map(\.value))]
    }

    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}

/// Lists the users who were erased lately, and how long ago: ages, since the caller compares them with times of its own clock.
package struct ListErasedUsers: PostgresStatement {
    package static let sql: SQL = """
        SELECT user_id, EXTRACT(epoch FROM now() - erased_at)::float8
        FROM erased_users
        WHERE erased_at >= now() - make_interval(secs => $1)
        """

    private let maximumAge: Duration

    package init(maximumAge: Duration) {
        self.maximumAge = maximumAge
    }

    package var parameters: [PostgresValue] { [.float64(maximumAge.inSeconds)] }

    package static func decode(_ row: PostgresRow) throws -> (userID: Int64, age: Duration) {
        let (userID, seconds) = try row.decode(Int64.self, Double.self)
        return (userID, .seconds(seconds))
    }
}

/// Deletes up to `limit` records of erasures of more than a day ago. Skips rows that another server is deleting.
package struct DeleteOldErasures: PostgresStatement {
    package static let sql: SQL = """
        DELETE FROM erased_users
        WHERE user_id IN (
            SELECT user_id
            FROM erased_users
            WHERE erased_at < now() - interval '1 day'
            LIMIT $1
            FOR UPDATE SKIP LOCKED
        )
        """

    private let limit: Int

    package init(limit: Int) {
        self.limit = limit
    }

    package var parameters: [PostgresValue] { [.int64(Int64(limit))] }
}
