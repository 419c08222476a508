internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import KakaoAPI

// How devices are read from requests and shown in answers.

extension DeviceKey {
    /// How long a `device_id` may be, in characters: as Kakao has it.
    static let idLength = 1...64
}

extension DeviceRegistration {
    /// Reads what an app says of its device.
    ///
    /// - Throws: ``Problem`` for a field that is missing or holds what it may not.
    init(_ parameters: Parameters, _ key: DeviceKey, _ caller: DeviceCaller) throws {
        self.init(
            key: key,
            pushToken: try parameters.text("push_token", length: 1...4096),
            locale: try parameters.optionalText("locale", length: 1...35),
            timezone: try parameters.optionalText("timezone", length: 1...64),
            appVersion: try parameters.optionalText("app_version", length: 1...64),
            tags: try parameters.texts("tags", count: 50, length: 1...64),
            authorizedAt: caller.authorizedAt
        )
    }
}

extension Device {
    /// All that is known of it but its token, which is masked.
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

/// What the devices of a user are sorted by.
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
    /// Stored, and told to Kakao as soon as Kakao answers.
    static var pending: Response {
        var json = JSONWriter()
        json.object { $0.member("state", "pending") }
        return .json(json.bytes, status: .accepted)
    }
}

extension String {
    /// A push token as it may be shown: enough to tell two apart, too little to send to.
    var masked: String {
        utf8.count > 16 ? "\(prefix(4))…\(suffix(4))" : "…"
    }
}
