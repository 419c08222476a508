internal import FoundationEssentials
internal import KakaoAPI
internal import Postgres

/// The devices that are registered here, whether Kakao has heard of them or not. What is withdrawn is no longer shown.
extension DeviceStore {
    private static let columns = """
        user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, created_at, updated_at,
            kakao_revision = revision, expires_at, failures
        """

    /// The tokens of some users, in the order of user and device. What many callers ask for at a time is one statement.
    func pushTokens(ofUsers userIDs: [Int64]) async throws -> [PushToken] {
        try await lookUps.submit(userIDs)
    }

    static let lookUpStatement = """
        SELECT place, user_id, device_id, push_type, push_token, created_at, updated_at
        FROM unnest($1::bigint[], $2::integer[]) AS asked (user_id, place)
        JOIN devices USING (user_id)
        WHERE NOT withdrawn
        ORDER BY place, user_id, device_id, push_type
        """

    static func lookUpParameters(_ items: [[Int64]]) -> [PostgresValue] {
        // A user who is named twice is listed once.
        let users = items.map { $0.count > 1 ? Array(Set($0)) : $0 }
        return [
            .int64s(Array(users.joined())),
            .int32s(users.indices.flatMap { repeatElement(Int32($0), count: users[$0].count) }),
        ]
    }

    static func decodeLookUps(_ rows: PostgresRows, _ count: Int) throws -> [[PushToken]] {
        var lists = [[PushToken]](repeating: [], count: count)
        for row in rows {
            let (place, userID, deviceID, pushType, pushToken, createdAt, updatedAt) = try row.decode(
                Int32.self,
                Int64.self,
                String.self,
                String.self,
                String.self,
                Date.self,
                Date.self
            )
            guard let pushType = PushType(storedName: pushType) else { continue }
            lists[Int(place)].append(
                PushToken(
                    userID: userID,
                    deviceID: deviceID,
                    pushType: pushType,
                    pushToken: pushToken,
                    createdAt: createdAt.rfc3339Seconds,
                    updatedAt: updatedAt.rfc3339Seconds
                )
            )
        }
        return lists
    }

    /// The devices of a user, in the order of their ids, at most `limit` of them.
    ///
    /// - Parameter cursor: Only those after this one.
    func devices(ofUser userID: Int64, after cursor: DeviceCursor?, limit: Int) async throws -> [Device] {
        let rows = try await pool.read(
            """
            SELECT \(Self.columns)
            FROM devices
            WHERE user_id = $1
                AND ($2::text IS NULL OR (device_id, push_type) > ($2, $3::text))
                AND NOT withdrawn
            ORDER BY device_id, push_type
            LIMIT $4
            """,
            [
                .int64(userID), .text(cursor?.deviceID), .text(cursor?.pushType.storedName), .int64(Int64(limit)),
            ]
        )
        return try rows.compactMap(Self.device)
    }

    /// What a user has registered under one id: a device, and seldom another one of another push type.
    func devices(ofUser userID: Int64, named deviceID: String) async throws -> [Device] {
        let rows = try await pool.read(
            """
            SELECT \(Self.columns)
            FROM devices
            WHERE user_id = $1
                AND device_id = $2
                AND NOT withdrawn
            """,
            [.int64(userID), .text(deviceID)]
        )
        return try rows.compactMap(Self.device)
    }

    private static func device(_ row: PostgresRow) throws -> Device? {
        let (
            userID, deviceID, pushType, pushToken, locale, timezone, appVersion, tags, createdAt, updatedAt, isSettled,
            expiresAt, failures
        ) = try row.decode(
            Int64.self,
            String.self,
            String.self,
            String.self,
            String?.self,
            String?.self,
            String?.self,
            [String].self,
            Date.self,
            Date.self,
            Bool.self,
            Date?.self,
            Int32.self
        )
        guard let pushType = PushType(storedName: pushType) else { return nil }
        return Device(
            key: DeviceKey(userID: userID, deviceID: deviceID, pushType: pushType),
            pushToken: pushToken,
            locale: locale,
            timezone: timezone,
            appVersion: appVersion,
            tags: tags,
            createdAt: createdAt,
            updatedAt: updatedAt,
            isSettled: isSettled,
            expiresAt: expiresAt,
            failures: Int(failures)
        )
    }
}
