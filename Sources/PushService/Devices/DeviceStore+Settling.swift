internal import FoundationEssentials
internal import KakaoAPI
internal import Postgres

/// What Kakao has yet to hear of, and what it has answered.
extension DeviceStore {
    /// Takes leases on devices of which Kakao has yet to hear, the longest waiting first.
    ///
    /// A registration waits until the withdrawals of the same token are settled.
    func claimUnsettled(limit: Int) async throws -> [UnsettledDevice] {
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
                device.lease, device.attempts
            """,
            [.int32(Int32(limit)), .uuid(UUID()), .float64(Double(Self.leaseSeconds))]
        )
        return try rows.compactMap { row in
            let (userID, deviceID, pushType, pushToken, isWithdrawn, revision, lease, attempts) = try row.decode(
                Int64.self,
                String.self,
                String.self,
                String.self,
                Bool.self,
                Int64.self,
                UUID.self,
                Int32.self
            )
            guard let pushType = PushType(storedName: pushType) else { return nil }
            return UnsettledDevice(
                key: DeviceKey(userID: userID, deviceID: deviceID, pushType: pushType),
                pushToken: pushToken,
                isWithdrawn: isWithdrawn,
                revision: revision,
                lease: lease,
                attempts: Int(attempts)
            )
        }
    }

    /// Kakao has confirmed what it was told. A device that was withdrawn is thereby gone.
    ///
    /// - Parameter expiresAt: When Kakao drops the token; `nil` for never.
    /// - Returns: Whether more was asked for this device meanwhile, so that it is still unsettled.
    func confirm(_ device: UnsettledDevice, expiresAt: Date?) async throws -> Bool {
        try await confirmations.submit(Confirmation(device: device, expiresAt: expiresAt))
    }

    /// The rows are locked first, and in the order of their key. What then counts is what stands in them now, not what stood there
    /// when the statement began: a change that comes in between must neither be lost nor be left with a lease that nobody holds.
    static let confirmStatement = """
        WITH given AS (
            SELECT *
            FROM unnest(
                $1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::uuid[], $6::timestamptz[]
            ) WITH ORDINALITY AS item (user_id, device_id, push_type, told, lease, expires_at, place)
        ),
        held AS (
            SELECT device.user_id, device.device_id, device.push_type, device.withdrawn, device.revision, given.told,
                given.expires_at, given.place
            FROM devices AS device
            JOIN given USING (user_id, device_id, push_type)
            WHERE device.lease = given.lease
            ORDER BY device.user_id, device.device_id, device.push_type
            FOR UPDATE OF device
        ),
        gone AS (
            DELETE FROM devices AS device
            USING held
            WHERE (device.user_id, device.device_id, device.push_type) = (held.user_id, held.device_id, held.push_type)
                AND held.withdrawn
                AND held.revision = held.told
            RETURNING held.place
        ),
        settled AS (
            UPDATE devices AS device
            SET kakao_revision = held.told,
                expires_at = held.expires_at,
                attempts = 0,
                lease = NULL,
                lease_ends_at = NULL
            FROM held
            WHERE (device.user_id, device.device_id, device.push_type) = (held.user_id, held.device_id, held.push_type)
                AND NOT (held.withdrawn AND held.revision = held.told)
            RETURNING held.place, held.revision > held.told AS is_unsettled
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
            .int64s(items.map(\.device.revision)),
            .uuids(items.map(\.device.lease)),
            .timestamps(items.map(\.expiresAt)),
        ]
    }

    static func decodeConfirmed(_ rows: PostgresRows, _ count: Int) throws -> [Bool] {
        // A row that is missing was confirmed under a lease that had ended: its new holder tells Kakao again.
        var results = [Bool](repeating: true, count: count)
        for row in rows {
            let (place, isUnsettled) = try row.decode(Int64.self, Bool.self)
            if results.indices.contains(Int(place) - 1) { results[Int(place) - 1] = isUnsettled }
        }
        return results
    }

    /// Kakao could not be reached: another try is made after `delay`.
    func postpone(_ device: UnsettledDevice, by delay: Duration) async throws {
        _ = try await pool.write(
            """
            UPDATE devices
            SET attempts = attempts + 1,
                next_attempt_at = now() + make_interval(secs => $5),
                lease = NULL,
                lease_ends_at = NULL
            WHERE user_id = $1
                AND device_id = $2
                AND push_type = $3
                AND lease = $4
            """,
            key(device) + [.uuid(device.lease), .float64(delay.inSeconds)]
        )
    }

    /// Kakao refuses the registration for good: the device is withdrawn, so that what stands here and what stands at Kakao agree;
    /// unless something newer was asked for it meanwhile, which Kakao is then told.
    func refuse(_ device: UnsettledDevice) async throws {
        _ = try await pool.write(
            """
            UPDATE devices
            SET withdrawn = withdrawn OR revision = $5,
                revision = CASE WHEN revision = $5 THEN revision + 1 ELSE revision END,
                attempts = 0,
                next_attempt_at = now(),
                lease = NULL,
                lease_ends_at = NULL
            WHERE user_id = $1
                AND device_id = $2
                AND push_type = $3
                AND lease = $4
            """,
            key(device) + [.uuid(device.lease), .int64(device.revision)]
        )
    }

    private func key(_ device: UnsettledDevice) -> [PostgresValue] {
        [.int64(device.key.userID), .text(device.key.deviceID), .text(device.key.pushType.storedName)]
    }
}

extension Duration {
    /// As a number of seconds, for `make_interval`.
    var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
