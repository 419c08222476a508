import HTTPTypes
import Schemas

/// Lists the devices of users in Kakao's order. Users without devices are absent. (Kakao, "Push: REST API", "Retrieve
/// tokens".)
package struct RetrievePushTokens: KakaoCall {
    package typealias Answer = [Token]

    package let version: PushVersion
    /// One user, or `nil` if there are ``userIDs``.
    package let userID: Int64?
    /// 1 to ``SendPush/maximumUsers`` users, or `nil` if there is ``userID``.
    package let userIDs: [Int64]?

    package static let operation = KakaoOperation<Self>(
        "push_tokens",
        [.post, .get],
        "/{version}/push/tokens",
        .push,
        [.adminKey],
        isIdempotent: true,
        "Lists the push tokens of users.",
        parameters: Record(
            .version(\.version),
            .optional("uuid", \.userID, .userID, "One user."),
            .optional("uuids", \.userIDs, .userIDs(count: 1...SendPush.maximumUsers), "Several users."),
            make: Self.init
        ),
        answer: .json(
            Token.record.kind("KakaoPushToken").array,
            example: [
                Token(
                    userID: 1234,
                    deviceID: "phone",
                    pushType: "apns",
                    pushToken: "1d4a4a45",
                    createdAt: "2014-07-29T06:24:12Z",
                    updatedAt: "2014-07-29T06:24:12Z"
                )
            ]
        )
    )

    /// A device as Kakao lists it.
    package struct Token: Sendable, Equatable {
        package let userID: Int64
        package let deviceID: String
        /// The name of the push type, in either version: a device that was registered with one version may be listed by
        /// the other.
        package let pushType: String
        package let pushToken: String
        /// The time of the first registration: `2014-07-29T06:24:12Z`.
        package let createdAt: String?
        /// The time of the last registration.
        package let updatedAt: String?

        package init(
            userID: Int64,
            deviceID: String,
            pushType: String,
            pushToken: String,
            createdAt: String?,
            updatedAt: String?
        ) {
            self.userID = userID
            self.deviceID = deviceID
            self.pushType = pushType
            self.pushToken = pushToken
            self.createdAt = createdAt
            self.updatedAt = updatedAt
        }

        fileprivate static let record = Record<Token>(
            .required("user_id", \.userID, .userID, "The user."),
            .required("device_id", \.deviceID, .text, "The device, among the user's devices."),
            .required("push_type", \.pushType, .text, "The service that delivers to the device."),
            .required("push_token", \.pushToken, .text, "The token from APNs or FCM."),
            .optional("created_at", \.createdAt, .text, "The time of the first registration."),
            .optional("updated_at", \.updatedAt, .text, "The time of the last registration."),
            make: Token.init
        )
    }
}

extension RetrievePushTokens {
    /// - Parameter userIDs: 1 to ``SendPush/maximumUsers`` ids. Kakao rejects more.
    package init(version: PushVersion, userIDs: [Int64]) {
        self.init(version: version, userID: nil, userIDs: userIDs)
    }
}
