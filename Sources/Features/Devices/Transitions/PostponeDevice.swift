import Endpoints
import Postgres

extension DeviceStore {
    /// Schedules another call to Kakao after `delay`, and releases the lease. This makes a repeated registration
    /// pending.
    func postpone(_ device: PendingDevice, by delay: Duration) async throws {
        try await pool.write(PostponeDevice(device: device, delay: delay))
    }
}

/// Schedules another call to Kakao about a device, unless another request or server has leased it since.
struct PostponeDevice: PostgresStatement {
    static let sql: SQL = """
        UPDATE devices
        SET revision = CASE WHEN kakao_revision = revision THEN revision + 1 ELSE revision END,
            attempts = attempts + 1,
            next_attempt_at = now() + make_interval(secs => $5),
            lease = NULL,
            lease_ends_at = NULL
        WHERE (user_id, device_id, push_type) = ($1, $2, $3)
            AND lease = $4
        """

    let device: PendingDevice
    let delay: Duration

    var parameters: [PostgresValue] {
        [
            .int64(device.key.userID), .text(device.key.deviceID), .pushType(device.key.pushType), .uuid(device.lease),
            .float64(delay.inSeconds),
        ]
    }
}
