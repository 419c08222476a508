import Endpoints
import FoundationEssentials
import Postgres

/// Leases up to `limit` pending devices that are due, those that have been due longest first. A registration waits until
/// the withdrawals of its token are confirmed.
struct ClaimPendingDevices: PostgresStatement {
    static let sql: SQL = """
        WITH claimed AS (
            SELECT user_id, device_id, push_type
            FROM devices AS device
            WHERE kakao_revision < revision
                AND next_attempt_at <= now()
                AND (lease_ends_at IS NULL OR lease_ends_at <= now())
                AND (withdrawn OR NOT EXISTS (
                    SELECT 1
                    FROM devices AS other
                    WHERE other.push_token = device.push_token
                        AND other.withdrawn
                        AND other.kakao_revision < other.revision
                ))
            ORDER BY next_attempt_at
            LIMIT $1
            FOR UPDATE SKIP LOCKED
        )
        UPDATE devices AS device
        SET lease = $2,
            lease_ends_at = now() + make_interval(secs => $3)
        FROM claimed
        WHERE (device.user_id, device.device_id, device.push_type)
            = (claimed.user_id, claimed.device_id, claimed.push_type)
        RETURNING device.user_id, device.device_id, device.push_type, device.push_token, device.withdrawn, device.revision,
            device.lease, device.attempts, device.renewal_revision IS NOT DISTINCT FROM device.revision
        """

    let limit: Int32

    var parameters: [PostgresValue] {
        [.int32(limit), .uuid(.v7()), .float64(DeviceStore.leaseDuration.inSeconds)]
    }

    static func decode(_ row: PostgresRow) throws -> PendingDevice {
        try row.decode { column in
            try PendingDevice(
                key: DeviceKey(&column),
                pushToken: column.next(),
                isWithdrawn: column.next(),
                revision: column.next(),
                lease: column.next(),
                attempts: Int(column.next(Int32.self)),
                isRenewal: column.next()
            )
        }
    }
}
