import Endpoints
import Postgres

/// Schedules another call to Kakao about a device and releases the lease, unless another request or server has leased it
/// since. This makes a repeated registration pending.
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

    var parameters: [PostgresValue] { device.key.parameters + [.uuid(device.lease), .float64(delay.inSeconds)] }
}
