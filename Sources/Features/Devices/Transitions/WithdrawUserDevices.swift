import Endpoints
import FoundationEssentials
import KakaoAPI
import Postgres

/// Withdraws the devices of a user, or those that were registered until a time, as of that time. Leases those that are not leased yet.
///
/// Returns the devices to call Kakao about, and `nil` for each about which another request or server calls Kakao.
struct WithdrawUserDevices: PostgresStatement {
    static let sql: SQL = """
        WITH held AS (
            SELECT user_id, device_id, push_type
            FROM devices
            WHERE user_id = $1
                AND ($4::timestamptz IS NULL OR updated_at <= $4)
            ORDER BY user_id, device_id, push_type
            FOR UPDATE
        )
        UPDATE devices AS device
        SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
                = (SELECT * FROM withdrawal(device, 'deregistered', COALESCE($4, now()))),
            lease = CASE WHEN device.lease_ends_at > now() THEN device.lease ELSE $2 END,
            lease_ends_at = CASE
                WHEN device.lease_ends_at > now() THEN device.lease_ends_at
                ELSE now() + make_interval(secs => $3)
            END
        FROM held
        WHERE (device.user_id, device.device_id, device.push_type) = (held.user_id, held.device_id, held.push_type)
        RETURNING device.user_id, device.device_id, device.push_type, device.push_token, device.revision, device.lease,
            device.lease = $2
        """

    let userID: Int64
    /// `nil` for all devices, as of now.
    let registeredUntil: Date?

    var parameters: [PostgresValue] {
        [
            .int64(userID), .uuid(.v7()), .float64(DeviceStore.leaseDuration.inSeconds), .timestamp(registeredUntil),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> PendingDevice? {
        let (device, isOurs) = try row.decode { try PendingDevice.decodeWithdrawn(&$0) }
        return isOurs ? device : nil
    }
}

/// Stores devices that only Kakao knows as withdrawn at a time, so that they are deregistered. A device that has been stored meanwhile
/// is not changed.
struct AddWithdrawnDevices: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO devices (user_id, device_id, push_type, push_token, withdrawn, created_at, updated_at)
        SELECT DISTINCT ON (user_id, device_id, push_type) user_id, device_id, push_type, push_token, true, COALESCE($5, now()),
            COALESCE($5, now())
        FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS item (user_id, device_id, push_type, push_token)
        ORDER BY user_id, device_id, push_type
        ON CONFLICT (user_id, device_id, push_type) DO NOTHING
        """

    let tokens: [PushToken]
    /// `nil` for now.
    let withdrawnAt: Date?

    var parameters: [PostgresValue] {
        [
            .int64s(tokens.map(\.userID)), .texts(tokens.map(\.deviceID)), .pushTypes(tokens.map(\.pushType)),
            .texts(tokens.map(\.pushToken)), .timestamp(withdrawnAt),
        ]
    }
}
