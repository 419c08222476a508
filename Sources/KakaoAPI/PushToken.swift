internal import JSON

/// A phone of a user, as Kakao lists it.
package struct PushToken: Sendable, Hashable {
    package let userID: Int64
    package let deviceID: String
    package let pushType: PushType
    package let pushToken: String
    /// As Kakao wrote it: `2014-07-29T06:24:12Z`. Empty if Kakao did not say.
    package let createdAt: String
    /// When it was last registered, likewise.
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

    /// Reads the answer to a look-up, an array; `nil` if it is anything else.
    ///
    /// Phones of a push type that is not known here are left out: nothing could be done with them.
    static func list(answer: [UInt8]) -> [PushToken]? {
        guard let elements = try? JSONValue(parsing: answer).array else { return nil }
        var tokens: [PushToken] = []
        for element in elements {
            guard let userID = userID(element["user_id"]), let deviceID = element["device_id"]?.string,
                let typeName = element["push_type"]?.string, let pushToken = element["push_token"]?.string
            else {
                return nil
            }
            // A phone that was registered with one version of the API may be listed by the other.
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

    /// A string of digits, by Kakao's documents; a number would mean the same.
    private static func userID(_ value: JSONValue?) -> Int64? {
        if let text = value?.string { return JSONNumber(text)?.int64 }
        return value?.integer
    }
}
