import Endpoints
import FoundationEssentials
import Postgres

/// Withdraws a device, and leases it. An unknown one is stored as withdrawn if that is wanted: Kakao may know it.
///
/// Returns the change, and the device to call Kakao about; `nil` while another request or server calls Kakao about it. Returns no row
/// for an unknown device that is not stored.
struct WithdrawDevice: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO devices AS device (
            user_id, device_id, push_type, push_token, withdrawn, lease, lease_ends_at, changed_by
        )
        SELECT $1, $2, $3, '', true, $4, now() + make_interval(secs => $5), $6
        WHERE $7
            OR EXISTS (SELECT FROM devices WHERE (user_id, device_id, push_type) = ($1, $2, $3))
        ON CONFLICT (user_id, device_id, push_type) DO UPDATE
        SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
                = (SELECT * FROM withdrawal(device, 'deregistered')),
            changed_by = excluded.changed_by,
            lease = CASE WHEN device.lease_ends_at > now() THEN device.lease ELSE excluded.lease END,
            lease_ends_at = CASE WHEN device.lease_ends_at > now() THEN device.lease_ends_at ELSE excluded.lease_ends_at END
        RETURNING user_id, device_id, push_type, push_token, revision, lease, lease = $4, updated_at
        """

    let key: DeviceKey
    /// The name of the operator key; `nil` for a withdrawal by the app.
    let keyName: String?
    /// Whether an unknown device is stored.
    var addsUnknown: Bool

    var parameters: [PostgresValue] {
        key.parameters + [
            .uuid(.v7()), .float64(DeviceStore.leaseDuration.inSeconds), .text(keyName), .bool(addsUnknown),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> (change: DeviceChange, pending: PendingDevice?) {
        try row.decode { column in
            let (device, isOurs) = try PendingDevice.decodeWithdrawn(&column)
            let change = DeviceChange(
                key: device.key,
                pushToken: device.pushToken,
                isWithdrawn: true,
                changedAt: try column.next()
            )
            return (change, isOurs ? device : nil)
        }
    }
}

extension PendingDevice {
    /// Decodes a withdrawn device: key, token, revision, lease, and whether the statement took the lease.
    static func decodeWithdrawn(_ column: inout ColumnCursor) throws -> (PendingDevice, isOurs: Bool) {
        let device = try PendingDevice(
            key: DeviceKey(&column),
            pushToken: column.next(),
            isWithdrawn: true,
            revision: column.next(),
            lease: column.next()
        )
        return (device, try column.next(Bool.self))
    }
}
