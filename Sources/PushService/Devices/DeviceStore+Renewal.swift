internal import Postgres

/// Tokens that are registered again before Kakao drops them.
extension DeviceStore {
    /// Devices of which Kakao may have yet to hear before no more are renewed. What apps ask for has to come through soon, also when
    /// Kakao was away for a while. Those of an import whose turn has not come (``DeviceImportStore``) hold nobody up.
    static let maximumUnsettled: Int32 = 1200
    /// Renewals that one server asks for in a second: with tokens that live 30 days, 50 million devices.
    static let renewalsPerSecond = 20.0

    /// Asks for the renewal of tokens whose time has come: Kakao is to be told of them again, one after the other, in the next minute.
    ///
    /// Whoever has not been seen for `activeWithinDays` is left to expire. A row is taken by one server, and its time is unset by that
    /// until Kakao has answered, so that no token is renewed twice.
    ///
    /// - Returns: How many tokens are renewed.
    func renew(activeWithinDays: Int) async throws -> Int {
        let rows = try await pool.write(
            """
            WITH waiting AS (
                SELECT count(*) AS devices
                FROM (
                    SELECT
                    FROM devices
                    WHERE kakao_revision < revision
                        AND next_attempt_at < 'infinity'
                    LIMIT $1
                ) AS unsettled
            ),
            due AS (
                SELECT user_id, device_id, push_type, renew_at, updated_at >= now() - make_interval(days => $2) AS is_active
                FROM devices
                WHERE renew_at <= now()
                    AND kakao_revision = revision
                ORDER BY renew_at
                LIMIT (SELECT GREATEST($1 - devices, 0) FROM waiting)
                FOR UPDATE SKIP LOCKED
            ),
            placed AS (
                SELECT *, row_number() OVER (PARTITION BY is_active ORDER BY renew_at) AS place
                FROM due
            ),
            taken AS (
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
            FROM taken
            WHERE is_active
            """,
            [
                .int32(Self.maximumUnsettled), .int32(Int32(clamping: activeWithinDays)),
                .float64(Self.renewalsPerSecond),
            ]
        )
        return try rows.first.map { Int(try $0.decode(Int64.self)) } ?? 0
    }
}
