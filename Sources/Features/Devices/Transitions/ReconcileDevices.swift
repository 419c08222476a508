import KakaoAPI
import Postgres

/// Marks the devices of a user that differ from Kakao's list as pending, and returns them. Stored devices are registered again
/// at Kakao, and unknown ones are deregistered. These are left alone within 30 days after PostgreSQL has lost commits: their
/// registrations may be lost, and their apps register them again. A dry run only returns the differences.
struct ReconcileDevices: PostgresStatement {
    static let sql: SQL = """
        WITH listed AS (
            SELECT DISTINCT ON (device_id, push_type) *
            FROM unnest($2::text[], $3::text[], $4::text[]) AS item (device_id, push_type, push_token)
            ORDER BY device_id, push_type
        ),
        held AS (
            SELECT device_id, push_type, push_token, withdrawn, kakao_revision < revision AS is_pending
            FROM devices
            WHERE user_id = $1
            ORDER BY user_id, device_id, push_type
            FOR UPDATE
        ),
        compared AS (
            SELECT held.device_id, held.push_type, CASE
                    WHEN held.is_pending THEN 'pending'
                    WHEN listed.push_token IS NULL THEN 'missing_at_kakao'
                    ELSE 'other_token_at_kakao'
                END AS kind
            FROM held
            LEFT JOIN listed USING (device_id, push_type)
            WHERE held.is_pending
                OR listed.push_token IS DISTINCT FROM held.push_token
        ),
        repeated AS (
            UPDATE devices AS device
            SET revision = device.revision + 1,
                attempts = 0,
                next_attempt_at = now()
            FROM compared
            WHERE device.user_id = $1
                AND (device.device_id, device.push_type) = (compared.device_id, compared.push_type)
                AND compared.kind <> 'pending'
                AND NOT $5
        ),
        unknown AS (
            SELECT device_id, push_type, push_token
            FROM listed
            WHERE NOT EXISTS (
                SELECT 1
                FROM held
                WHERE (held.device_id, held.push_type) = (listed.device_id, listed.push_type)
            )
        ),
        withdrawn AS (
            INSERT INTO devices (user_id, device_id, push_type, push_token, withdrawn)
            SELECT $1, device_id, push_type, push_token, true
            FROM unknown
            WHERE NOT $5
                AND NOT EXISTS (SELECT 1 FROM sender WHERE commits_lost_at > now() - interval '30 days')
            ORDER BY device_id, push_type
            ON CONFLICT (user_id, device_id, push_type) DO NOTHING
        )
        SELECT $1, device_id, push_type, kind
        FROM compared
        UNION ALL
        SELECT $1, device_id, push_type, 'unknown_here'
        FROM unknown
        ORDER BY device_id, push_type
        """

    let userID: Int64
    /// Kakao's list, requested before this statement. A device that is registered in between is at worst registered twice.
    let listed: [PushToken]
    let isDryRun: Bool

    var parameters: [PostgresValue] {
        [
            .int64(userID), .texts(listed.map(\.deviceID)), .pushTypes(listed.map(\.pushType)),
            .texts(listed.map(\.pushToken)), .bool(isDryRun),
        ]
    }
    static func decode(_ row: PostgresRow) throws -> DeviceDifference {
        try row.decode { try DeviceDifference(key: DeviceKey(&$0), kind: $0.next()) }
    }
}
