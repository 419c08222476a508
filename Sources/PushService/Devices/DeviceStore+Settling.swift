internal import FoundationEssentials
internal import KakaoAPI
internal import Postgres

/// What Kakao has yet to hear of, and what it has answered.
extension DeviceStore {
    /// Takes leases on devices of which Kakao has yet to hear, the longest waiting first.
    ///
    /// A registration waits until the withdrawals of the same token are settled.
    func claimPending(limit: Int) async throws -> [PendingDevice] {
        let rows = try await pool.write(
            """
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
                device.lease, device.attempts, device.renewal_revision IS NOT DISTINCT FROM device.revision AS is_renewal
            """,
            [.int32(Int32(limit)), .uuid(.v7()), .float64(Double(Self.leaseSeconds))]
        )
        return try rows.compactMap { row in
            let (userID, deviceID, pushType, pushToken, isWithdrawn, revision, lease, attempts, isRenewal) =
                try row.decode(
                    Int64.self,
                    String.self,
                    String.self,
                    String.self,
                    Bool.self,
                    Int64.self,
                    UUID.self,
                    Int32.self,
                    Bool.self
                )
            guard let pushType = PushType(storedName: pushType) else { return nil }
            return PendingDevice(
                key: DeviceKey(userID: userID, deviceID: deviceID, pushType: pushType),
                pushToken: pushToken,
                isWithdrawn: isWithdrawn,
                revision: revision,
                lease: lease,
                attempts: Int(attempts),
                isRenewal: isRenewal
            )
        }
    }

    /// Kakao has confirmed what it was told. A device that was withdrawn is thereby gone.
    ///
    /// - Parameters:
    ///   - expiresAt: When Kakao drops the token; `nil` for never.
    ///   - renewAt: When it is registered again before that.
    /// - Returns: Whether there is more to tell Kakao: of this device, or of one that loses its token to it.
    func confirm(_ device: PendingDevice, expiresAt: Date?, renewAt: Date?) async throws -> Bool {
        let confirmation = Confirmation(device: device, expiresAt: expiresAt, renewAt: renewAt)
        return try await retryingDeadlocks { try await confirmations.submit(confirmation) }
    }

    /// The rows are locked first, and in the order of their key. What then counts is what stands in them now, not what stood there
    /// when the statement began: a change that comes in between must neither be lost nor be left with a lease that nobody holds.
    ///
    /// Two registrations of one token whose transactions overlap do not see each other. A confirmation begins when its registration has
    /// been committed, so that the one that begins last sees both; the device that was registered last keeps the token, and the other
    /// is withdrawn. No constraint could say that where devices are sharded by user.
    static let confirmStatement = """
        WITH given AS (
            SELECT *
            FROM unnest(
                $1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::uuid[], $7::timestamptz[], $8::timestamptz[]
            ) WITH ORDINALITY AS item (
                user_id, device_id, push_type, push_token, told, lease, expires_at, renew_at, place
            )
        ),
        concerned AS (
            SELECT user_id, device_id, push_type, told, lease, expires_at, renew_at, place
            FROM given
            UNION ALL
            SELECT DISTINCT other.user_id, other.device_id, other.push_type, NULL::bigint, NULL::uuid, NULL::timestamptz,
                NULL::timestamptz, NULL::bigint
            FROM given
            JOIN devices AS other USING (push_token)
            WHERE given.push_token <> ''
                AND NOT other.withdrawn
                AND (other.user_id, other.device_id, other.push_type)
                    <> (given.user_id, given.device_id, given.push_type)
                AND NOT EXISTS (
                    SELECT 1
                    FROM given AS own
                    WHERE (own.user_id, own.device_id, own.push_type) = (other.user_id, other.device_id, other.push_type)
                )
        ),
        held AS (
            SELECT device.user_id, device.device_id, device.push_type, device.push_token, device.withdrawn, device.revision,
                device.updated_at, concerned.told, concerned.expires_at, concerned.renew_at, concerned.place
            FROM devices AS device
            JOIN concerned USING (user_id, device_id, push_type)
            WHERE concerned.lease IS NULL
                OR device.lease = concerned.lease
            ORDER BY device.user_id, device.device_id, device.push_type
            FOR UPDATE OF device
        ),
        ranked AS (
            SELECT *,
                NOT withdrawn AND row_number() OVER (
                    PARTITION BY push_token, withdrawn
                    ORDER BY updated_at DESC, user_id DESC, device_id DESC, push_type DESC
                ) > 1 AS loses_token
            FROM held
        ),
        gone AS (
            DELETE FROM devices AS device
            USING ranked
            WHERE (device.user_id, device.device_id, device.push_type)
                    = (ranked.user_id, ranked.device_id, ranked.push_type)
                AND ranked.withdrawn
                AND ranked.revision = ranked.told
            RETURNING ranked.place
        ),
        settled AS (
            UPDATE devices AS device
            SET withdrawn = ranked.withdrawn OR ranked.loses_token,
                revision = ranked.revision + CASE WHEN ranked.loses_token THEN 1 ELSE 0 END,
                kakao_revision = COALESCE(ranked.told, device.kakao_revision),
                expires_at = CASE WHEN ranked.told IS NULL THEN device.expires_at ELSE ranked.expires_at END,
                renew_at = CASE WHEN ranked.told IS NULL THEN device.renew_at ELSE ranked.renew_at END,
                attempts = 0,
                next_attempt_at = CASE WHEN ranked.loses_token THEN now() ELSE device.next_attempt_at END,
                lease = CASE WHEN ranked.told IS NULL THEN device.lease END,
                lease_ends_at = CASE WHEN ranked.told IS NULL THEN device.lease_ends_at END
            FROM ranked
            WHERE (device.user_id, device.device_id, device.push_type)
                    = (ranked.user_id, ranked.device_id, ranked.push_type)
                AND (ranked.told IS NOT NULL OR ranked.loses_token)
                AND NOT (ranked.withdrawn AND ranked.revision = ranked.told)
            RETURNING ranked.place, device.kakao_revision < device.revision AS is_unsettled
        )
        SELECT place, is_unsettled
        FROM settled
        UNION ALL
        SELECT place, false
        FROM gone
        """

    static func confirmParameters(_ items: [Confirmation]) -> [PostgresValue] {
        [
            .int64s(items.map(\.device.key.userID)),
            .texts(items.map(\.device.key.deviceID)),
            .texts(items.map(\.device.key.pushType.storedName)),
            // A device that was withdrawn takes its token from nobody.
            .texts(items.map { $0.device.isWithdrawn ? "" : $0.device.pushToken }),
            .int64s(items.map(\.device.revision)),
            .uuids(items.map(\.device.lease)),
            .timestamps(items.map(\.expiresAt)),
            .timestamps(items.map(\.renewAt)),
        ]
    }

    static func decodeConfirmed(_ rows: PostgresRows, _ count: Int) throws -> [Bool] {
        // A row that is missing was confirmed under a lease that had ended: its new holder tells Kakao again.
        var results = [Bool](repeating: true, count: count)
        var somebodyLost = false
        for row in rows {
            let (place, isPending) = try row.decode(Int64?.self, Bool.self)
            guard let place else {
                somebodyLost = true
                continue
            }
            if results.indices.contains(Int(place) - 1) { results[Int(place) - 1] = isPending }
        }
        return somebodyLost ? [Bool](repeating: true, count: count) : results
    }

    /// Kakao could not be reached: another try is made after `delay`, also of what was only repeated and is thereby asked for anew.
    func postpone(_ device: PendingDevice, by delay: Duration) async throws {
        try await release(
            device,
            setting: """
                revision = CASE WHEN kakao_revision = revision THEN revision + 1 ELSE revision END,
                attempts = attempts + 1,
                next_attempt_at = now() + make_interval(secs => $5)
                """,
            .float64(delay.inSeconds)
        )
    }

    /// Kakao refuses the registration for good: the device is withdrawn, so that what stands here and what stands at Kakao agree;
    /// unless something newer was asked for it meanwhile, which Kakao is then told.
    ///
    /// A renewal that is refused withdraws nothing: Kakao has the token, until it expires. It is tried again in a day.
    func refuse(_ device: PendingDevice) async throws {
        guard !device.isRenewal else { return try await giveUpRenewal(device) }
        try await release(
            device,
            setting: """
                withdrawn = withdrawn OR revision = $5,
                revision = CASE WHEN revision = $5 THEN revision + 1 ELSE revision END,
                attempts = 0,
                next_attempt_at = now()
                """,
            .int64(device.revision)
        )
    }

    private func giveUpRenewal(_ device: PendingDevice) async throws {
        try await release(
            device,
            setting: """
                kakao_revision = $5,
                renew_at = now() + interval '1 day',
                attempts = 0,
                next_attempt_at = now()
                """,
            .int64(device.revision)
        )
    }

    /// Gives a device's lease up, if it still is the one that holds the row, and changes the row with that.
    ///
    /// - Parameters:
    ///   - changes: What is set besides, as SQL of ours.
    ///   - parameter: `$5` of it.
    private func release(
        _ device: PendingDevice,
        setting changes: String,
        _ parameter: PostgresValue
    ) async throws {
        _ = try await pool.write(
            """
            UPDATE devices
            SET \(changes),
                lease = NULL,
                lease_ends_at = NULL
            WHERE user_id = $1
                AND device_id = $2
                AND push_type = $3
                AND lease = $4
            """,
            [
                .int64(device.key.userID), .text(device.key.deviceID), .text(device.key.pushType.storedName),
                .uuid(device.lease), parameter,
            ]
        )
    }
}

extension Duration {
    /// As a number of seconds, for `make_interval`.
    var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
