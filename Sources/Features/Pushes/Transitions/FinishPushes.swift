import FoundationEssentials
import Postgres

extension BatchStore {
    /// Finishes those pushes that have nothing left to send. Returns their ids.
    func finish(_ ids: [UUID]) async throws -> [UUID] {
        try await pool.write(FinishPushes(ids: ids))
    }

    /// Ends a push after its `expires_at`.
    func expire(_ id: UUID) async throws {
        try await pool.write(ExpirePush(id: id, hours: settings.hours))
    }
}

/// Finishes pushes whose users are all counted.
///
/// Counts are read after the results are committed. If two servers store the last two batches, the later one sees both.
/// A push that changes while this statement waits for its row is not finished, since its counts may have changed too.
struct FinishPushes: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes AS push
        SET state = 'done',
            finished_at = now()
        WHERE push.id = ANY ($1)
            AND push.state = ANY ($2)
            AND push.retry_position IS NULL
            AND push.xmin = (SELECT seen.xmin FROM pushes AS seen WHERE seen.id = push.id)
            AND push.users - push.users_skipped
                = (SELECT COALESCE(sum(users), 0) FROM push_counts WHERE push_id = push.id)
        RETURNING push.id
        """

    let ids: [UUID]

    var parameters: [PostgresValue] { [.uuids(ids), .states(before: .finish)] }
    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}

/// Ends a push after its `expires_at`.
struct ExpirePush: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET state = 'expired',
            finished_at = now(),
            -- At the end of the hours it is not night yet.
            ended_at_night = NOT \(AdvertisingHours.admit(hours: "$3", at: "expires_at - interval '1 microsecond'"))
        WHERE id = $1
            AND state = ANY ($2)
            AND expires_at <= now()
        """

    let id: UUID
    /// The hours for advertising: ``AdvertisingHours/parameter(in:)``.
    let hours: PostgresValue

    var parameters: [PostgresValue] { [.uuid(id), .states(before: .expire), hours] }
}
