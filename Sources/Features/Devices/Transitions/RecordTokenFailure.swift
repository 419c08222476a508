import Postgres
import ServiceKit

/// Counts a failure of a token, and withdraws the device at `limit` failures. Returns for each device whether it was
/// withdrawn; none if the report has no effect.
///
/// A report has no effect if it was counted before or is older than the registration, regardless of the order in which
/// reports are stored.
struct RecordTokenFailure: PostgresStatement {
    static let sql: SQL = """
        WITH held AS (
            SELECT user_id, device_id, push_type
            FROM devices
            WHERE user_id = $1
                AND push_token = $2
                AND NOT withdrawn
                AND updated_at <= $3
                AND (failures = 0 OR last_failure_at IS DISTINCT FROM $3 AND $3 <> ALL (COALESCE(failure_dates, '{}')))
            ORDER BY user_id, device_id, push_type
            FOR UPDATE
        )
        UPDATE devices AS device
        SET failures = failures + 1,
            last_failure_at = GREATEST(last_failure_at, $3),
            failure_dates = CASE WHEN failures = 0 THEN ARRAY[$3] ELSE failure_dates || $3 END,
            (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
                = (SELECT * FROM withdrawal(device, 'token_failed', device.updated_at, device.failures + 1 >= $4))
        FROM held
        WHERE (device.user_id, device.device_id, device.push_type) = (held.user_id, held.device_id, held.push_type)
        RETURNING device.withdrawn
        """

    let failure: TokenFailure
    let limit: Int32

    var parameters: [PostgresValue] {
        [.int64(failure.userID), .text(failure.pushToken), .timestamp(failure.date), .int32(limit)]
    }

    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}
