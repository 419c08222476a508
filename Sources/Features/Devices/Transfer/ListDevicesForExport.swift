import FoundationEssentials
import KakaoAPI
import Postgres

/// Lists up to `limit` devices in the order of their key, without withdrawn ones.
///
/// A token with a pending renewal has an expiry like before: Kakao keeps it until then.
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
            try TransferredDevice(
                registration: DeviceRegistration(
                    key: DeviceKey(&column),
                    pushToken: column.next(),
                    locale: column.next(),
                    timezone: column.next(),
                    appVersion: column.next(),
                    tags: column.next()
                ),
                createdAt: column.next(),
                updatedAt: column.next(),
                expiry: TransferredDevice.Expiry(date: column.next(), isAtKakao: column.next())
            )
        }
    }
}

extension TransferredDevice.Expiry {
    /// `nil` for a device that Kakao does not have.
    fileprivate init?(date: Date?, isAtKakao: Bool) {
        guard isAtKakao else { return nil }
        self = date.map { .date($0) } ?? .never
    }
}
