import Postgres

/// Marks confirmed devices whose tokens are due for renewal as pending, spread over the next minute. Returns their number.
///
/// Only one server updates a row, and its renewal time is unset until Kakao has confirmed the device, so that no token
/// is renewed twice.
struct RenewDevices: PostgresStatement {
    static let sql: SQL = """
        WITH pending AS (
            SELECT count(*) AS devices
            FROM (
                SELECT
                FROM devices
                WHERE kakao_revision < revision
                    AND next_attempt_at < 'infinity'
                LIMIT $1
            ) AS pending
        ),
        due AS (
            SELECT user_id, device_id, push_type, renew_at, updated_at >= now() - make_interval(days => $2) AS is_active
            FROM devices
            WHERE renew_at <= now()
                AND kakao_revision = revision
            ORDER BY renew_at
            LIMIT (SELECT GREATEST($1 - devices, 0) FROM pending)
            FOR UPDATE SKIP LOCKED
        ),
        placed AS (
            SELECT *, row_number() OVER (PARTITION BY is_active ORDER BY renew_at) AS place
            FROM due
        ),
        renewed AS (
            UPDATE devices AS device
            SET renew_at = NULL,
                renewal_revision = CASE WHEN placed.is_active THEN device.revision + 1 END,
                revision = CASE WHEN placed.is_active THEN device.revision + 1 ELSE device.revision END,
                attempts = 0,
                next_attempt_at = now() + make_interval(secs => placed.place / $3)
            FROM placed
            WHERE (device.user_id, device.device_id, device.push_type)
                = (placed.user_id, placed.device_id, placed.push_type)
            RETURNING placed.is_active
        )
        SELECT count(*)
        FROM renewed
        WHERE is_active
        """

    /// The number of pending devices at which renewals stop, so that apps' requests come first, also after an outage of
    /// Kakao. Imported devices that are not scheduled yet do not count.
    private static let maximumPending: Int32 = 1200
    /// The number of renewals that one server schedules per second: enough for 40 million devices with tokens of
    /// 30 days that are renewed 7 days before they expire.
    private static let renewalsPerSecond = 20.0

    /// The number of days without a registration after which a device is left to expire.
    let activeWithinDays: Int32

    var parameters: [PostgresValue] {
        [.int32(Self.maximumPending), .int32(activeWithinDays), .float64(Self.renewalsPerSecond)]
    }

    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
