import Endpoints
import FoundationEssentials
package import KakaoAPI
package import Postgres
import Schemas

/// The key of a device, here and at Kakao.
struct DeviceKey: Hashable, Sendable {
    /// The lengths that Kakao allows for `device_id`, in characters.
    static let idLength = 1...64
    /// The description of `device_id`.
    static let idDescription = "An id of the device that the app chooses, unique among the devices of a user."

    let userID: Int64
    let deviceID: String
    let pushType: PushType
}

extension DeviceKey {
    /// Decodes `user_id`, `device_id` and `push_type`.
    init(_ column: inout ColumnCursor) throws {
        try self.init(userID: column.next(), deviceID: column.next(), pushType: column.next())
    }

    /// The columns of the primary key, in its order.
    var parameters: [PostgresValue] { [.int64(userID), .text(deviceID), .pushType(pushType)] }
}

/// A stored device.
struct Device: Sendable {
    let key: DeviceKey
    let pushToken: String
    let locale: String?
    let timezone: String?
    let appVersion: String?
    let tags: [String]
    let createdAt: Date
    let updatedAt: Date
    /// Whether Kakao has confirmed the device as it is stored.
    let isConfirmed: Bool
    /// The time at which Kakao deletes the token; `nil` for never, and before Kakao has confirmed the device.
    let expiresAt: Date?
    let failures: Int
    /// The name of the operator key that last registered the device; `nil` for its app.
    let changedBy: String?
}

extension PushType {
    /// The name in the database, which is the same for both versions of Kakao's API.
    var storedName: String {
        switch self {
        case .apns: "apns"
        case .fcm: "fcm"
        }
    }

    /// The names of all types.
    static let storedNames = allCases.map(\.storedName)

    init?(storedName: String) {
        switch storedName {
        case "apns": self = .apns
        case "fcm": self = .fcm
        default: return nil
        }
    }
}

extension PushType: PostgresDecodable {
    package static func decode(_ cell: PostgresCell) throws(PostgresError) -> PushType {
        let name = try cell.decode(String.self)
        guard let pushType = PushType(storedName: name) else { throw cell.error("has an unknown push type: \(name)") }
        return pushType
    }
}

extension PostgresValue {
    static func pushType(_ pushType: PushType) -> PostgresValue { .text(pushType.storedName) }
    static func pushTypes(_ pushTypes: [PushType]) -> PostgresValue { .texts(pushTypes.map(\.storedName)) }
}

extension Device {
    /// The members of a device, with a masked token.
    static let shape = Shape<Device>(
        "Device",
        [
            .member("user_id", .userID, "The user.", \.key.userID),
            .member("device_id", .text, DeviceKey.idDescription, \.key.deviceID),
            .member(
                "push_type",
                .text(oneOf: PushType.storedNames),
                "The service that delivers to the device.",
                \.key.pushType.storedName
            ),
            .member("push_token", .text, "The push token, masked.", \.pushToken.masked),
            .member(
                "state",
                .text(oneOf: ["registered", "pending"]),
                "`pending` until Kakao has confirmed the latest change."
            ) {
                $0.isConfirmed ? "registered" : "pending"
            },
            .nullable("locale", .text, "The app's language.", \.locale),
            .nullable("timezone", .text, "The device's time zone.", \.timezone),
            .nullable("app_version", .text, "The app's version.", \.appVersion),
            .array("tags", .text, "The tags by which pushes choose devices.", \.tags),
            .member("failures", .count, "The failed deliveries since the last registration.") { Int64($0.failures) },
            .nullable("expires_at", .time, "When Kakao deletes the token; null for never or unknown.", \.expiresAt),
            .member("created_at", .time, "When the device was first registered.", \.createdAt),
            .member("updated_at", .time, "When the device was last registered.", \.updatedAt),
            .nullable(
                "changed_by",
                .text,
                "The name of the operator key that last registered it; null for its app.",
                \.changedBy
            ),
        ]
    )
}

/// The sort key of a user's devices, as a page cursor.
struct DeviceCursor: PageCursor {
    let deviceID: String
    let pushType: PushType

    init(_ key: DeviceKey) {
        deviceID = key.deviceID
        pushType = key.pushType
    }

    init?(cursor: String) {
        guard let colon = cursor.firstIndex(of: ":"), let pushType = PushType(storedName: String(cursor[..<colon]))
        else { return nil }
        deviceID = String(cursor[cursor.index(after: colon)...])
        self.pushType = pushType
    }

    var cursor: String { "\(pushType.storedName):\(deviceID)" }
}

extension String {
    /// A push token in a form that may be shown: enough to distinguish two tokens, too little to send to one.
    var masked: String {
        utf8.count > 16 ? "\(prefix(4))…\(suffix(4))" : "…"
    }
}
