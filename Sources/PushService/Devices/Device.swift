internal import FoundationEssentials
internal import HTTPServer
internal import HTTPTypes
internal import JSON
package import KakaoAPI
package import Postgres

/// The key of a device, here and at Kakao.
struct DeviceKey: Hashable, Sendable {
    /// The lengths that Kakao allows for `device_id`, in characters.
    static let idLength = 1...64

    let userID: Int64
    let deviceID: String
    let pushType: PushType
}

extension DeviceKey: Comparable {
    static func < (key: DeviceKey, other: DeviceKey) -> Bool {
        // The keys of one statement nearly always differ in their users.
        guard key.userID == other.userID else { return key.userID < other.userID }
        return (key.deviceID, key.pushType.storedName) < (other.deviceID, other.pushType.storedName)
    }
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
}

extension PushType {
    /// The name in the database, which is the same for both versions of Kakao's API.
    var storedName: String {
        switch self {
        case .apns: "apns"
        case .fcm: "fcm"
        }
    }

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
    /// Writes the members of the device, with a masked token.
    func write(to json: inout JSONWriter.Members) {
        json.member("user_id", String(key.userID))
        json.member("device_id", key.deviceID)
        json.member("push_type", key.pushType.storedName)
        json.member("push_token", pushToken.masked)
        json.member("state", isConfirmed ? "registered" : "pending")
        json.member("locale", locale)
        json.member("timezone", timezone)
        json.member("app_version", appVersion)
        json.array("tags") { json in
            for tag in tags { json.element(tag) }
        }
        json.member("failures", failures)
        json.member("expires_at", expiresAt?.rfc3339)
        json.member("created_at", createdAt.rfc3339)
        json.member("updated_at", updatedAt.rfc3339)
    }
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
        else {
            return nil
        }
        deviceID = String(cursor[cursor.index(after: colon)...])
        self.pushType = pushType
    }

    var cursor: String { "\(pushType.storedName):\(deviceID)" }
}

extension Device {
    fileprivate var cursor: DeviceCursor { DeviceCursor(key) }
}

extension Page<DeviceCursor> {
    /// - Parameter devices: Up to one more than `limit`.
    func response(_ devices: [Device]) -> Response {
        response(devices, cursor: \.cursor) { $0.write(to: &$1) }
    }
}

extension Response {
    /// The response 202 to a change that is stored here while the call to Kakao is pending.
    static var pending: Response {
        var json = JSONWriter()
        json.object { $0.member("state", "pending") }
        return .json(json.bytes, status: .accepted)
    }
}

extension String {
    /// A push token in a form that may be shown: enough to distinguish two tokens, too little to send to one.
    var masked: String {
        utf8.count > 16 ? "\(prefix(4))…\(suffix(4))" : "…"
    }
}
