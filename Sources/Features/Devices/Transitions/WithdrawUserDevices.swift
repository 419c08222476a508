import Endpoints
import KakaoAPI
import Postgres

extension DeviceStore {
    /// The devices of a user after their withdrawal.
    struct UserWithdrawal: Sendable {
        /// The devices to call Kakao about.
        let pending: [PendingDevice]
        /// Whether another request or server calls Kakao about further devices.
        let isShared: Bool
    }

    /// Withdraws all devices of a user.
    func withdrawDevices(ofUser userID: Int64) async throws -> UserWithdrawal {
        let devices = try await pool.write(WithdrawUserDevices(userID: userID))
        let pending = devices.compactMap(\.self)
        return UserWithdrawal(pending: pending, isShared: pending.count < devices.count)
    }

    /// Stores devices that only Kakao knows as withdrawn, so that they are deregistered. A device that has been stored
    /// meanwhile is not changed.
    func addWithdrawn(_ tokens: [PushToken]) async throws {
        try await pool.write(AddWithdrawnDevices(tokens: tokens))
    }
}

/// Withdraws all devices of a user, and leases those that are not leased yet.
struct WithdrawUserDevices: PostgresStatement {
    static let sql: SQL = """
        WITH held AS (
            SELECT user_id, device_id, push_type
            FROM devices
            WHERE user_id = $1
            ORDER BY user_id, device_id, push_type
            FOR UPDATE
        )
        UPDATE devices AS device
        SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
                = (SELECT * FROM withdrawal(device, 'deregistered')),
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

    var parameters: [PostgresValue] {
        [.int64(userID), .uuid(.v7()), .float64(DeviceStore.leaseDuration.inSeconds)]
    }

    /// Decodes a device; `nil` if it is leased already.
    static func decode(_ row: PostgresRow) throws -> PendingDevice? { try PendingDevice(withdrawn: row) }
}

/// Stores unknown devices as withdrawn.
struct AddWithdrawnDevices: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO devices (user_id, device_id, push_type, push_token, withdrawn)
        SELECT DISTINCT ON (user_id, device_id, push_type) user_id, device_id, push_type, push_token, true
        FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS item (user_id, device_id, push_type, push_token)
        ORDER BY user_id, device_id, push_type
        ON CONFLICT (user_id, device_id, push_type) DO NOTHING
        """

    let tokens: [PushToken]

    var parameters: [PostgresValue] {
        [
            .int64s(tokens.map(\.userID)), .texts(tokens.map(\.deviceID)), .pushTypes(tokens.map(\.pushType)),
            .texts(tokens.map(\.pushToken)),
        ]
    }
}
