import Endpoints
import FoundationEssentials
import KakaoAPI
import Postgres

extension DeviceStore {
    /// Withdraws a device. An unknown one is stored as withdrawn: Kakao may know it.
    ///
    /// - Parameter keyName: The name of the operator key; `nil` for a withdrawal by the app.
    /// - Returns: The device to call Kakao about; `nil` while another request or server calls Kakao about it.
    func withdraw(_ key: DeviceKey, by keyName: String?) async throws -> PendingDevice? {
        try await pool.write(WithdrawDevice(key: key, keyName: keyName)).first ?? nil
    }
}

/// Withdraws a device, known or not, and leases it.
struct WithdrawDevice: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO devices AS device (
            user_id, device_id, push_type, push_token, withdrawn, lease, lease_ends_at, changed_by
        )
        VALUES ($1, $2, $3, '', true, $4, now() + make_interval(secs => $5), $6)
        ON CONFLICT (user_id, device_id, push_type) DO UPDATE
        SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
                = (SELECT * FROM withdrawal(device, 'deregistered')),
            changed_by = excluded.changed_by,
            lease = CASE WHEN device.lease_ends_at > now() THEN device.lease ELSE excluded.lease END,
            lease_ends_at = CASE WHEN device.lease_ends_at > now() THEN device.lease_ends_at ELSE excluded.lease_ends_at END
        RETURNING user_id, device_id, push_type, push_token, revision, lease, lease = $4
        """

    let key: DeviceKey
    let keyName: String?

    var parameters: [PostgresValue] {
        [
            .int64(key.userID), .text(key.deviceID), .pushType(key.pushType), .uuid(.v7()),
            .float64(DeviceStore.leaseDuration.inSeconds), .text(keyName),
        ]
    }

    /// Decodes the device; `nil` if it is leased already.
    static func decode(_ row: PostgresRow) throws -> PendingDevice? { try PendingDevice(withdrawn: row) }
}

extension PendingDevice {
    /// Decodes a withdrawn device: key, token, revision, lease, and whether the statement took the lease. Returns `nil`
    /// if it did not.
    init?(withdrawn row: PostgresRow) throws {
        let device: PendingDevice? = try row.decode { column in
            let userID = try column.next(Int64.self)
            let deviceID = try column.next(String.self)
            let pushType = try column.next(PushType.self)
            let pushToken = try column.next(String.self)
            let revision = try column.next(Int64.self)
            let lease = try column.next(UUID.self)
            let isOurs = try column.next(Bool.self)
            guard isOurs else { return nil }
            return PendingDevice(
                key: DeviceKey(userID: userID, deviceID: deviceID, pushType: pushType),
                pushToken: pushToken,
                isWithdrawn: true,
                revision: revision,
                lease: lease
            )
        }
        guard let device else { return nil }
        self = device
    }
}
