internal import FoundationEssentials
internal import KakaoAPI
internal import Postgres

/// The devices that are registered here, whether Kakao has heard of them or not. What is withdrawn is no longer shown.
extension DeviceStore {
    private static let columns = """
        user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, created_at, updated_at,
            kakao_revision = revision, expires_at, failures
        """

    /// Push tokens in the order of user and device.
    struct TokenPage: Sendable {
        var tokens: [PushToken] = []
        /// The device after which the next page begins; `nil` for the last page.
        var next: DeviceKey?
        /// Whether nothing is stored of the user, not even a withdrawn device. Only Kakao may have tokens then.
        var isUnknown = false
    }

    /// Devices of a user that a coalesced look-up reads: more than nearly every user has, and few enough for 64 users at a time.
    private static let firstPage = 16
    /// Devices of every further page: with tokens of 4 KB, a megabyte.
    private static let laterPages: Int64 = 256

    /// The first page of a user's tokens. Concurrent look-ups are one statement.
    func pushTokens(ofUser userID: Int64) async throws -> TokenPage {
        try await lookUps.submit(userID)
    }

    /// The users without any stored device, withdrawn ones included.
    func unknownUsers(among userIDs: [Int64]) async throws -> [Int64] {
        let rows = try await pool.read(
            """
            SELECT user_id
            FROM unnest($1::bigint[]) AS asked (user_id)
            WHERE NOT EXISTS (SELECT 1 FROM devices WHERE devices.user_id = asked.user_id)
            """,
            [.int64s(userIDs)]
        )
        return try rows.map { try $0.decode(Int64.self) }
    }

    /// A page of the tokens of some users.
    ///
    /// - Parameter key: Only those after this device.
    func pushTokens(ofUsers userIDs: [Int64], after key: DeviceKey?) async throws -> TokenPage {
        let rows = try await pool.read(
            """
            SELECT user_id, device_id, push_type, push_token, created_at, updated_at
            FROM devices
            WHERE user_id = ANY ($1::bigint[])
                AND (user_id, device_id, push_type) > ($2, $3, $4)
                AND NOT withdrawn
            ORDER BY user_id, device_id, push_type
            LIMIT $5
            """,
            [
                .int64s(userIDs.filter { $0 >= key?.userID ?? 0 }), .int64(key?.userID ?? 0),
                .text(key?.deviceID ?? ""),
                .text(key?.pushType.storedName ?? ""), .int64(Self.laterPages),
            ]
        )
        var page = TokenPage()
        page.tokens = try rows.compactMap { row in
            let (userID, deviceID, pushType, pushToken, createdAt, updatedAt) = try row.decode(
                Int64.self,
                String.self,
                String.self,
                String.self,
                Date.self,
                Date.self
            )
            return PushToken(userID, deviceID, pushType, pushToken, createdAt, updatedAt)
        }
        if page.tokens.count == Int(Self.laterPages) { page.next = page.tokens.last.map(DeviceKey.init) }
        return page
    }

    /// One row without a device for an unknown user.
    static let lookUpStatement = """
        SELECT place, asked_id, device_id, push_type, push_token, created_at, updated_at, withdrawn
        FROM unnest($1::bigint[]) WITH ORDINALITY AS asked (asked_id, place)
        LEFT JOIN LATERAL (
            SELECT device_id, push_type, push_token, created_at, updated_at, withdrawn
            FROM devices
            WHERE user_id = asked_id
            ORDER BY device_id, push_type
            LIMIT \(firstPage)
        ) AS device ON true
        ORDER BY place, device_id, push_type
        """

    static func lookUpParameters(_ userIDs: [Int64]) -> [PostgresValue] { [.int64s(userIDs)] }

    static func decodeLookUps(_ rows: PostgresRows, _ count: Int) throws -> [TokenPage] {
        var pages = [TokenPage](repeating: TokenPage(), count: count)
        var found = [Int](repeating: 0, count: count)
        for row in rows {
            let (place, userID, deviceID, pushType, pushToken, createdAt, updatedAt, isWithdrawn) = try row.decode(
                Int64.self,
                Int64.self,
                PostgresCell.self,
                PostgresCell.self,
                PostgresCell.self,
                PostgresCell.self,
                PostgresCell.self,
                PostgresCell.self
            )
            let index = Int(place) - 1
            guard pages.indices.contains(index) else { continue }
            guard !deviceID.isNull else {
                pages[index].isUnknown = true
                continue
            }
            let token = try PushToken(
                userID,
                deviceID.decode(String.self),
                pushType.decode(String.self),
                pushToken.decode(String.self),
                createdAt.decode(Date.self),
                updatedAt.decode(Date.self)
            )
            guard let token else { continue }
            found[index] += 1
            if try !isWithdrawn.decode(Bool.self) { pages[index].tokens.append(token) }
            if found[index] == firstPage { pages[index].next = DeviceKey(token) }
        }
        return pages
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
            userID, deviceID, pushType, pushToken, locale, timezone, appVersion, tags, createdAt, updatedAt,
            isConfirmed,
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
            isConfirmed: isConfirmed,
            expiresAt: expiresAt,
            failures: Int(failures)
        )
    }
}

extension PushToken {
    /// A device as Kakao lists it; `nil` for a push type that is unknown.
    fileprivate init?(
        _ userID: Int64,
        _ deviceID: String,
        _ pushType: String,
        _ pushToken: String,
        _ createdAt: Date,
        _ updatedAt: Date
    ) {
        guard let pushType = PushType(storedName: pushType) else { return nil }
        self.init(
            userID: userID,
            deviceID: deviceID,
            pushType: pushType,
            pushToken: pushToken,
            createdAt: createdAt.rfc3339Seconds,
            updatedAt: updatedAt.rfc3339Seconds
        )
    }
}

extension DeviceKey {
    fileprivate init(_ token: PushToken) {
        self.init(userID: token.userID, deviceID: token.deviceID, pushType: token.pushType)
    }
}
