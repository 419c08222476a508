import FoundationEssentials
import Postgres

/// What the server did with the report that a push was opened.
enum OpenOutcome: String, CaseIterable, Sendable {
    /// The user was sent the push, and has opened it now or before.
    case counted
    /// There is no such push, or it was not sent to the user.
    case ignored
}

/// The pushes that users have opened, in PostgreSQL.
final class PushOpenStore: Sendable {
    /// The time for which reports are gathered, so that one search in the packed users of a push serves many of them.
    private static let spacing = Duration.milliseconds(100)

    private let records: StatementCoalescer<RecordPushOpens>

    init(pool: PostgresPool) {
        // Event loops mostly use different slots, and so do not wait for each other.
        let slot = Int32.random(in: 0..<64)
        records = StatementCoalescer(pool: pool, spacing: Self.spacing) { RecordPushOpens(opens: $0, slot: slot) }
    }

    /// Stores that a user has opened a push, once. Returns after it is committed.
    func record(_ open: PushOpen) async throws -> OpenOutcome {
        try await records.submit(open)
    }
}

/// A user's app reports that a push was opened.
struct PushOpen: Sendable {
    let pushID: UUID
    let userID: Int64
}

// MARK: Statements

/// Stores and counts the users who have opened pushes, each once for a push, if the push was sent to them or may have been.
///
/// The known reports are left out first, so that a repetition costs no search. They are looked up one by one, whatever plan PostgreSQL
/// prefers for a large table. Rows are inserted in the order of their keys, before the counts, so that statements do not deadlock.
struct RecordPushOpens: CoalescedStatement {
    typealias Item = PushOpen
    typealias Output = OpenOutcome

    static let sql: SQL = """
        WITH item AS MATERIALIZED (
            SELECT push_id, user_id, place,
                (SELECT true FROM push_opens AS known WHERE known.push_id = given.push_id AND known.user_id = given.user_id)
                    AS is_known
            FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS given (push_id, user_id, place)
        ),
        found AS MATERIALIZED (
            SELECT given.push_id, member.user_id
            FROM (SELECT push_id, array_agg(user_id) AS user_ids FROM item WHERE is_known IS NULL GROUP BY push_id) AS given
            JOIN pushes AS push ON push.id = given.push_id AND push.removed_at IS NULL
            CROSS JOIN LATERAL push_users(given.push_id, given.user_ids) AS member
            WHERE member.state IN ('sending', 'sent', 'uncertain')
                OR member.may_repeat
        ),
        opened AS (
            INSERT INTO push_opens (push_id, user_id)
            SELECT push_id, user_id
            FROM found
            ORDER BY push_id, user_id
            ON CONFLICT (push_id, user_id) DO NOTHING
            RETURNING push_id
        ),
        counted AS (
            INSERT INTO push_open_counts AS counts (push_id, slot, users)
            SELECT push_id, $3, count(*)
            FROM opened
            GROUP BY push_id
            ORDER BY push_id
            ON CONFLICT (push_id, slot) DO UPDATE
            SET users = counts.users + excluded.users
        )
        SELECT item.is_known IS NOT NULL OR found.user_id IS NOT NULL
        FROM item
        LEFT JOIN found ON found.push_id = item.push_id AND found.user_id = item.user_id
        ORDER BY item.place
        """

    let opens: [PushOpen]
    /// The slot of `push_open_counts` in which they count.
    let slot: Int32

    var parameters: [PostgresValue] {
        [.uuids(opens.map(\.pushID)), .int64s(opens.map(\.userID)), .int32(slot)]
    }

    static func outputs(_ rows: PostgresRows, count: Int) throws -> [OpenOutcome] { try rows.map(decode) }
    static func decode(_ row: PostgresRow) throws -> OpenOutcome { try row.decode(Bool.self) ? .counted : .ignored }
}

/// Deletes up to `limit` of the users who have opened a push. Skips rows that another server is deleting.
struct DeletePushOpens: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM push_opens
        WHERE push_id = $1
            AND user_id IN (
                SELECT user_id
                FROM push_opens
                WHERE push_id = $1
                ORDER BY user_id
                LIMIT $2
                FOR UPDATE SKIP LOCKED
            )
        """

    let pushID: UUID
    let limit: Int

    var parameters: [PostgresValue] { [.uuid(pushID), .int64(Int64(limit))] }
}

/// Deletes users from those who have opened pushes. The counts stay: they name nobody.
struct DeleteOpensOfUsers: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM push_opens
        USING unnest($1::bigint[], $2::timestamptz[]) AS item (user_id, until)
        WHERE push_opens.user_id = item.user_id
            AND opened_at <= COALESCE(item.until, 'infinity')
        """

    /// The users, each with the time until which they were opened; `nil` for all.
    let users: [(id: Int64, until: Date?)]

    var parameters: [PostgresValue] { [.int64s(users.map(\.id)), .timestamps(users.map(\.until))] }
}
