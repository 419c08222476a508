internal import FoundationEssentials
internal import KakaoAPI
internal import Postgres

/// All devices of one user at once.
extension DeviceStore {
    /// What is to be told Kakao when all devices of a user are withdrawn.
    struct Withdrawal: Sendable {
        /// What the caller is to tell.
        let unsettled: [PendingDevice]
        /// Somebody else is at it with a device.
        let isShared: Bool
    }

    /// Notes devices that Kakao knows and that are unknown here: Kakao is to forget them. One that is registered here meanwhile stays.
    func addWithdrawn(_ tokens: [PushToken]) async throws {
        _ = try await pool.write(
            """
            INSERT INTO devices (user_id, device_id, push_type, push_token, withdrawn)
            SELECT DISTINCT ON (user_id, device_id, push_type) user_id, device_id, push_type, push_token, true
            FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS item (user_id, device_id, push_type, push_token)
            ORDER BY user_id, device_id, push_type
            ON CONFLICT (user_id, device_id, push_type) DO NOTHING
            """,
            [
                .int64s(tokens.map(\.userID)), .texts(tokens.map(\.deviceID)),
                .texts(tokens.map(\.pushType.storedName)), .texts(tokens.map(\.pushToken)),
            ]
        )
    }

    /// Takes all devices of a user back.
    func withdrawAll(ofUser userID: Int64) async throws -> Withdrawal {
        let rows = try await retryingDeadlocks {
            try await pool.write(
                """
                WITH held AS (
                    SELECT user_id, device_id, push_type
                    FROM devices
                    WHERE user_id = $1
                    ORDER BY user_id, device_id, push_type
                    FOR UPDATE
                )
                UPDATE devices AS device
                SET \(Self.withdrawal(lease: "$2", seconds: "$3"))
                FROM held
                WHERE (device.user_id, device.device_id, device.push_type) = (held.user_id, held.device_id, held.push_type)
                RETURNING device.device_id, device.push_type, device.push_token, device.revision, device.lease,
                    device.lease = $2
                """,
                [.int64(userID), .uuid(.v7()), .float64(Double(Self.leaseSeconds))]
            )
        }
        var unsettled: [PendingDevice] = []
        for row in rows {
            let (deviceID, pushType, pushToken, revision, lease, isOurs) = try row.decode(
                String.self,
                String.self,
                String.self,
                Int64.self,
                UUID.self,
                Bool.self
            )
            guard isOurs, let pushType = PushType(storedName: pushType) else { continue }
            unsettled.append(
                PendingDevice(
                    key: DeviceKey(userID: userID, deviceID: deviceID, pushType: pushType),
                    pushToken: pushToken,
                    isWithdrawn: true,
                    revision: revision,
                    lease: lease,
                    attempts: 0
                )
            )
        }
        return Withdrawal(unsettled: unsettled, isShared: unsettled.count < rows.count)
    }

    /// Compares the devices of a user with what Kakao lists, and asks for what makes them alike: Kakao is told again of what it does not
    /// have as it stands here, and is to forget what is unknown here.
    ///
    /// Of what Kakao has yet to hear it is told anyway. `listed` is to be older than this call: what is registered in between is at
    /// worst told twice.
    func reconcile(userID: Int64, listed: [PushToken]) async throws -> [DeviceDifference] {
        let rows = try await retryingDeadlocks {
            try await pool.write(
                """
                WITH listed AS (
                    SELECT DISTINCT ON (device_id, push_type) *
                    FROM unnest($2::text[], $3::text[], $4::text[]) AS item (device_id, push_type, push_token)
                    ORDER BY device_id, push_type
                ),
                held AS (
                    SELECT device_id, push_type, push_token, withdrawn, kakao_revision < revision AS is_unsettled
                    FROM devices
                    WHERE user_id = $1
                    ORDER BY user_id, device_id, push_type
                    FOR UPDATE
                ),
                compared AS (
                    SELECT held.device_id, held.push_type, CASE
                            WHEN held.is_unsettled THEN 'pending'
                            WHEN listed.push_token IS NULL THEN 'missing_at_kakao'
                            ELSE 'other_token_at_kakao'
                        END AS kind
                    FROM held
                    LEFT JOIN listed USING (device_id, push_type)
                    WHERE held.is_unsettled
                        OR listed.push_token IS DISTINCT FROM held.push_token
                ),
                told_again AS (
                    UPDATE devices AS device
                    SET revision = device.revision + 1,
                        attempts = 0,
                        next_attempt_at = now()
                    FROM compared
                    WHERE device.user_id = $1
                        AND (device.device_id, device.push_type) = (compared.device_id, compared.push_type)
                        AND compared.kind <> 'pending'
                ),
                unknown AS (
                    INSERT INTO devices (user_id, device_id, push_type, push_token, withdrawn)
                    SELECT $1, device_id, push_type, push_token, true
                    FROM listed
                    WHERE NOT EXISTS (
                        SELECT 1
                        FROM held
                        WHERE (held.device_id, held.push_type) = (listed.device_id, listed.push_type)
                    )
                    ORDER BY device_id, push_type
                    ON CONFLICT (user_id, device_id, push_type) DO NOTHING
                    RETURNING device_id, push_type, 'unknown_here' AS kind
                )
                SELECT device_id, push_type, kind
                FROM compared
                UNION ALL
                SELECT device_id, push_type, kind
                FROM unknown
                ORDER BY device_id, push_type
                """,
                [
                    .int64(userID), .texts(listed.map(\.deviceID)), .texts(listed.map(\.pushType.storedName)),
                    .texts(listed.map(\.pushToken)),
                ]
            )
        }
        return try rows.compactMap { row in
            let (deviceID, pushType, kind) = try row.decode(String.self, String.self, String.self)
            guard let pushType = PushType(storedName: pushType), let kind = DeviceDifference.Kind(rawValue: kind) else {
                return nil
            }
            let key = DeviceKey(userID: userID, deviceID: deviceID, pushType: pushType)
            return DeviceDifference(key: key, kind: kind)
        }
    }
}

/// A device that does not stand here as it stands at Kakao.
struct DeviceDifference: Sendable {
    enum Kind: String, Sendable {
        /// Kakao has yet to hear what was asked for it last.
        case pending
        case missingAtKakao = "missing_at_kakao"
        case otherTokenAtKakao = "other_token_at_kakao"
        case unknownHere = "unknown_here"
    }

    let key: DeviceKey
    let kind: Kind
}
