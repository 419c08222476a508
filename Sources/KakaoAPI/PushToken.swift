internal import JSON

/// A user's device as listed by Kakao.
package struct PushToken: Sendable, Hashable {
    package let userID: Int64
    package let deviceID: String
    package let pushType: PushType
    package let pushToken: String
    /// The time of the first registration in Kakao's format, `2014-07-29T06:24:12Z`. Empty if Kakao did not send it.
    package let createdAt: String
    /// The time of the last registration, in the format of ``createdAt``.
    package let updatedAt: String

    package init(
        userID: Int64,
        deviceID: String,
        pushType: PushType,
        pushToken: String,
        createdAt: String,
        updatedAt: String
    ) {
        self.userID = userID
        self.deviceID = deviceID
        self.pushType = pushType
        self.pushToken = pushToken
        self.createdAt = createdAt
        self.updatedAt = updatedAt
    }

    /// Parses the response of `POST …/tokens`. Returns `nil` unless it is an array of valid elements.
    ///
    /// Devices with an unknown push type are left out, because nothing could be sent to them.
    static func list(answer: [UInt8]) -> [PushToken]? {
        guard let elements = try? JSONValue(parsing: answer).array else { return nil }
        var tokens: [PushToken] = []
        for element in elements {
            guard let userID = userID(element["user_id"]), let deviceID = element["device_id"]?.string,
                let typeName = element["push_type"]?.string, let pushToken = element["push_token"]?.string
            else {
                return nil
            }
            // A device that was registered with one version of the API may be listed by the other.
            guard let pushType = PushType(name: typeName) else { continue }
            let createdAt = element["created_at"]?.string ?? ""
            let updatedAt = element["updated_at"]?.string ?? ""
            tokens.append(
                PushToken(
                    userID: userID,
                    deviceID: deviceID,
                    pushType: pushType,
                    pushToken: pushToken,
                    createdAt: createdAt,
                    updatedAt: updatedAt
                )
            )
        }
        return tokens
    }

    /// Kakao documents a string of digits; a number is accepted too.
    private static func userID(_ value: JSONValue?) -> Int64? {
        if let text = value?.string { return JSONNumber(text)?.int64 }
        return value?.integer
    }
}
