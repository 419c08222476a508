import Postgres
import ServiceKit

/// Withdraws the devices of users who have left the app, except those that were registered since. Returns their number.
struct WithdrawDepartedDevices: PostgresStatement {
    static let sql: SQL = """
        SELECT COALESCE(sum(withdraw_departed_devices(user_id, left_at)), 0)::bigint
        FROM (
            SELECT user_id, left_at
            FROM unnest($1::bigint[], $2::timestamptz[]) AS departure (user_id, left_at)
            ORDER BY user_id
            OFFSET 0
        ) AS departure
        """

    let departures: [UserEvent]

    var parameters: [PostgresValue] {
        [.int64s(departures.map(\.userID)), .timestamps(departures.map(\.happenedAt))]
    }

    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
