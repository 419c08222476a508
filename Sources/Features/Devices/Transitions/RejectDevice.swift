import Postgres

extension DeviceStore {
    /// Stores that Kakao rejects a registration, and releases the lease.
    ///
    /// The device is withdrawn, so that the database and Kakao agree, unless the app has changed it meanwhile. A
    /// rejected renewal withdraws nothing, since Kakao has the token until it expires; it is retried a day later.
    func reject(_ device: PendingDevice) async throws {
        if device.isRenewal {
            try await pool.write(RejectRenewal(device: device))
        } else {
            try await pool.write(RejectRegistration(device: device))
        }
    }
}

/// Withdraws a device that Kakao rejects, unless it was changed or leased since.
struct RejectRegistration: PostgresStatement {
    static let sql: SQL = """
        UPDATE devices AS device
        SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
                = (SELECT * FROM withdrawal(device, 'rejected', device.updated_at, device.revision = $5)),
            lease = NULL,
            lease_ends_at = NULL
        WHERE (user_id, device_id, push_type) = ($1, $2, $3)
            AND lease = $4
        """

    let device: PendingDevice

    var parameters: [PostgresValue] { device.leasedRevision }
}

/// Schedules the next attempt to renew a token a day later, unless the device was changed or leased since.
struct RejectRenewal: PostgresStatement {
    static let sql: SQL = """
        UPDATE devices
        SET kakao_revision = CASE WHEN revision = $5 AND renewal_revision = $5 THEN revision ELSE kakao_revision END,
            renew_at = CASE WHEN revision = $5 AND renewal_revision = $5 THEN now() + interval '1 day' ELSE renew_at END,
            attempts = CASE WHEN revision = $5 AND renewal_revision = $5 THEN 0 ELSE attempts END,
            lease = NULL,
            lease_ends_at = NULL
        WHERE (user_id, device_id, push_type) = ($1, $2, $3)
            AND lease = $4
        """

    let device: PendingDevice

    var parameters: [PostgresValue] { device.leasedRevision }
}

extension PendingDevice {
    /// The key, lease and revision of the device.
    fileprivate var leasedRevision: [PostgresValue] { key.parameters + [.uuid(lease), .int64(revision)] }
}
