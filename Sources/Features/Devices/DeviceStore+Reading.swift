import Endpoints
import FoundationEssentials
import KakaoAPI
import Postgres

/// Reads of registered devices, whether Kakao has confirmed them or not. Withdrawn devices are not returned.
extension DeviceStore {
    /// A page of push tokens in the order of user and device.
    struct TokenPage: Sendable {
        var tokens: [PushToken] = []
        /// The device after which the next page begins; `nil` for the last page.
        var next: DeviceKey?
        /// Whether no device of the user is stored, not even a withdrawn one. Then only Kakao may have tokens.
        var isUnknown = false
    }

    /// The number of devices on a page of ``pushTokens(ofUsers:after:)``: 1 MB with tokens of 4 KB.
    private static let pageSize = 256

    /// Returns the first page of a user's tokens. Concurrent look-ups share a statement.
    func pushTokens(ofUser userID: Int64) async throws -> TokenPage {
        try await lookUps.submit(userID)
    }

    /// Returns a page of the tokens of users, starting after the device `key`.
    func pushTokens(ofUsers userIDs: [Int64], after key: DeviceKey?) async throws -> TokenPage {
        var page = TokenPage()
        page.tokens = try await pool.read(ListPushTokens(userIDs: userIDs, after: key, limit: Int64(Self.pageSize)))
        if page.tokens.count == Self.pageSize { page.next = page.tokens.last.map(DeviceKey.init) }
        return page
    }
}

// MARK: Statements

/// Looks up the tokens of users, up to ``firstPage`` for each user.
struct LookUpDevices: CoalescedStatement {
    typealias Item = Int64

    /// The number of devices on a user's first page: more than nearly every user has, and few enough for 64 users in
    /// one statement.
    private static let firstPage = 16

    static let sql: SQL = """
        SELECT place, asked_id, device_id, push_type, push_token, created_at, updated_at, withdrawn
        FROM unnest($1::bigint[]) WITH ORDINALITY AS asked (asked_id, place)
        LEFT JOIN LATERAL (
            SELECT device_id, push_type, push_token, created_at, updated_at, withdrawn
            FROM devices
            WHERE user_id = asked_id
            ORDER BY device_id, push_type
            LIMIT 16
        ) AS device ON true
        ORDER BY place, device_id, push_type
        """

    let userIDs: [Int64]

    var parameters: [PostgresValue] { [.int64s(userIDs)] }

    /// Decodes a device and its user's place among the users, from 1. The columns of the device are NULL for an unknown
    /// user.
    static func decode(
        _ row: PostgresRow
    ) throws -> (Int64, Int64, PostgresCell, PostgresCell, PostgresCell, PostgresCell, PostgresCell, PostgresCell) {
        try row.decode(
            Int64.self,
            Int64.self,
            PostgresCell.self,
            PostgresCell.self,
            PostgresCell.self,
            PostgresCell.self,
            PostgresCell.self,
            PostgresCell.self
        )
    }

    static func outputs(_ rows: PostgresRows, count: Int) throws -> [DeviceStore.TokenPage] {
        var pages = [DeviceStore.TokenPage](repeating: DeviceStore.TokenPage(), count: count)
        var found = [Int](repeating: 0, count: count)
        for row in rows {
            let (place, userID, deviceID, pushType, pushToken, createdAt, updatedAt, isWithdrawn) = try decode(row)
            let index = Int(place) - 1
            guard pages.indices.contains(index) else { continue }
            guard !deviceID.isNull else {
                pages[index].isUnknown = true
                continue
            }
            let token = try PushToken(
                userID: userID,
                deviceID: deviceID.decode(String.self),
                pushType: pushType.decode(PushType.self),
                pushToken: pushToken.decode(String.self),
                createdAt: createdAt.decode(Date.self).rfc3339Seconds,
                updatedAt: updatedAt.decode(Date.self).rfc3339Seconds
            )
            found[index] += 1
            if try !isWithdrawn.decode(Bool.self) { pages[index].tokens.append(token) }
            if found[index] == firstPage { pages[index].next = DeviceKey(token) }
        }
        return pages
    }
}

/// Finds the users without any stored device, withdrawn ones included.
struct FindUnknownUsers: PostgresStatement {
    static let sql: SQL = """
        SELECT user_id
        FROM unnest($1::bigint[]) AS asked (user_id)
        WHERE NOT EXISTS (SELECT 1 FROM devices WHERE devices.user_id = asked.user_id)
        """

    let userIDs: [Int64]

    var parameters: [PostgresValue] { [.int64s(userIDs)] }
    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}

/// Lists the tokens of users in the order of user and device.
struct ListPushTokens: PostgresStatement {
    static let sql: SQL = """
        SELECT user_id, device_id, push_type, push_token, created_at, updated_at
        FROM devices
        WHERE user_id = ANY ($1::bigint[])
            AND (user_id, device_id, push_type) > ($2, $3, $4)
            AND NOT withdrawn
        ORDER BY user_id, device_id, push_type
        LIMIT $5
        """

    let userIDs: [Int64]
    let after: DeviceKey?
    let limit: Int64

    var parameters: [PostgresValue] {
        [
            .int64s(userIDs.filter { $0 >= after?.userID ?? 0 }), .int64(after?.userID ?? 0),
            .text(after?.deviceID ?? ""), .text(after?.pushType.storedName ?? ""), .int64(limit),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> PushToken {
        try row.decode { column in
            try PushToken(
                userID: column.next(),
                deviceID: column.next(),
                pushType: column.next(),
                pushToken: column.next(),
                createdAt: column.next(Date.self).rfc3339Seconds,
                updatedAt: column.next(Date.self).rfc3339Seconds
            )
        }
    }
}

/// Lists the devices of a user in the order of their ids.
struct ListDevices: PostgresStatement {
    static let sql: SQL = """
        SELECT \(Device.columns)
        FROM devices
        WHERE user_id = $1
            AND ($2::text IS NULL OR (device_id, push_type) > ($2, $3::text))
            AND NOT withdrawn
        ORDER BY device_id, push_type
        LIMIT $4
        """

    let userID: Int64
    let after: DeviceCursor?
    let limit: Int

    var parameters: [PostgresValue] {
        [.int64(userID), .text(after?.deviceID), .text(after?.pushType.storedName), .int64(Int64(limit))]
    }

    static func decode(_ row: PostgresRow) throws -> Device { try row.decode { try Device(&$0) } }
}

/// Finds the devices of a user with one id, of each push type.
struct FindDevices: PostgresStatement {
    static let sql: SQL = """
        SELECT \(Device.columns)
        FROM devices
        WHERE user_id = $1
            AND device_id = $2
            AND NOT withdrawn
        """

    let userID: Int64
    let deviceID: String

    var parameters: [PostgresValue] { [.int64(userID), .text(deviceID)] }
    static func decode(_ row: PostgresRow) throws -> Device { try row.decode { try Device(&$0) } }
}

extension Device {
    fileprivate static let columns: SQL = """
        user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, created_at, updated_at,
            kakao_revision = revision, expires_at, failures, changed_by
        """

    /// Decodes ``columns``.
    fileprivate init(_ column: inout ColumnCursor) throws {
        try self.init(
            key: DeviceKey(&column),
            pushToken: column.next(),
            locale: column.next(),
            timezone: column.next(),
            appVersion: column.next(),
            tags: column.next(),
            createdAt: column.next(),
            updatedAt: column.next(),
            isConfirmed: column.next(),
            expiresAt: column.next(),
            failures: Int(column.next(Int32.self)),
            changedBy: column.next()
        )
    }
}

extension DeviceKey {
    fileprivate init(_ token: PushToken) {
        self.init(userID: token.userID, deviceID: token.deviceID, pushType: token.pushType)
    }
}
