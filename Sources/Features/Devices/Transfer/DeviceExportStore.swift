import FoundationEssentials
import KakaoAPI
import Postgres

/// All devices, page by page in the order of their key.
struct DeviceExportStore: Sendable {
    private let pool: PostgresPool

    init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Returns up to `limit` devices after a key, without withdrawn ones.
    ///
    /// A token with a pending renewal has an expiry like before: Kakao keeps it until then.
    func devices(after key: DeviceKey?, limit: Int) async throws -> [TransferredDevice] {
        try await pool.read(ListDevicesForExport(after: key, limit: limit))
    }
}

// MARK: Statements

/// Lists devices in the order of their key, without withdrawn ones.
struct ListDevicesForExport: PostgresStatement {
    static let sql: SQL = """
        SELECT user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, created_at, updated_at,
            expires_at, kakao_revision = revision OR renewal_revision IS NOT DISTINCT FROM revision
        FROM devices
        WHERE (user_id, device_id, push_type) > ($1, $2, $3)
            AND NOT withdrawn
        ORDER BY user_id, device_id, push_type
        LIMIT $4
        """

    /// The last key of the previous page; `nil` for the first page.
    let after: DeviceKey?
    let limit: Int

    var parameters: [PostgresValue] {
        [
            .int64(after?.userID ?? 0), .text(after?.deviceID ?? ""), .text(after?.pushType.storedName ?? ""),
            .int64(Int64(limit)),
        ]
    }
    static func decode(_ row: PostgresRow) throws -> TransferredDevice {
        try row.decode { column in
            let userID = try column.next(Int64.self)
            let deviceID = try column.next(String.self)
            let pushType = try column.next(PushType.self)
            let pushToken = try column.next(String.self)
            let locale = try column.next(String?.self)
            let timezone = try column.next(String?.self)
            let appVersion = try column.next(String?.self)
            let tags = try column.next([String].self)
            let createdAt = try column.next(Date.self)
            let updatedAt = try column.next(Date.self)
            let expiresAt = try column.next(Date?.self)
            let isAtKakao = try column.next(Bool.self)
            return TransferredDevice(
                registration: DeviceRegistration(
                    key: DeviceKey(userID: userID, deviceID: deviceID, pushType: pushType),
                    pushToken: pushToken,
                    locale: locale,
                    timezone: timezone,
                    appVersion: appVersion,
                    tags: tags
                ),
                createdAt: createdAt,
                updatedAt: updatedAt,
                expiry: isAtKakao ? expiresAt.map { .date($0) } ?? .never : nil
            )
        }
    }
}
