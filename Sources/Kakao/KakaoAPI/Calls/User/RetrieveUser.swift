import HTTPTypes
package import JSON
import Schemas

/// Returns what a user has agreed to share: the Kakao Account and the properties that the app has stored. (Kakao, "Kakao
/// Login: REST API", "Retrieve user information".)
///
/// Error -101 means that the user is not linked to the app, -103 that the account is dormant or does not exist. A member
/// to which the user has not agreed is absent.
package struct RetrieveUser: KakaoCall {
    /// Whether the addresses of images are https.
    package let secureResource: Bool?
    /// The members to return: `kakao_account.email`, `properties.nickname`, or `kakao_account.` for all of the account.
    package let propertyKeys: [String]?

    package init(secureResource: Bool? = nil, propertyKeys: [String]? = nil) {
        self.secureResource = secureResource
        self.propertyKeys = propertyKeys
    }

    package static let operation = KakaoOperation<Self>(
        "user_me",
        [.get, .post],
        "/v2/user/me",
        .user,
        [.userToken, .adminKeyForUser],
        "Returns the user's Kakao Account and properties, as far as the user has agreed.",
        parameters: Record(
            .optional("secure_resource", \.secureResource, .boolean, "Whether the addresses of images are https."),
            .propertyKeys(\.propertyKeys),
            make: Self.init
        ),
        answer: .json(Answer.kind, example: .example),
        admitsUnlinked: true
    )

    package struct Answer: Sendable {
        package let userID: Int64
        /// The time when the user was linked to the app: `2022-04-11T01:45:28Z`.
        package let connectedAt: String?
        /// Whether the user has signed up; `nil` if the app links its users automatically.
        package let hasSignedUp: Bool?
        /// Texts that the app has stored, by their keys.
        package let properties: JSONObject?
        /// The Kakao Account. Kakao adds members to it.
        package let kakaoAccount: JSONObject?

        package init(
            userID: Int64,
            connectedAt: String?,
            hasSignedUp: Bool?,
            properties: JSONObject?,
            kakaoAccount: JSONObject?
        ) {
            self.userID = userID
            self.connectedAt = connectedAt
            self.hasSignedUp = hasSignedUp
            self.properties = properties
            self.kakaoAccount = kakaoAccount
        }

        static let kind = Record<Answer>(
            .required("id", \.userID, .kakaoID, "The user."),
            .optional("connected_at", \.connectedAt, .text, "The time when the user was linked to the app."),
            .optional(
                "has_signed_up",
                \.hasSignedUp,
                .boolean,
                "Whether the user has signed up; absent if the app links its users automatically."
            ),
            .optional("properties", \.properties, .object, "Texts that the app has stored, by their keys."),
            .optional("kakao_account", \.kakaoAccount, .object, "The Kakao Account, as far as the user has agreed."),
            make: Answer.init
        )
        .kind("KakaoUser")

        static let example = Answer(
            userID: 123_456_789,
            connectedAt: "2022-04-11T01:45:28Z",
            hasSignedUp: nil,
            properties: ["nickname": "홍길동"],
            kakaoAccount: [
                "profile_nickname_needs_agreement": false, "profile": ["nickname": "홍길동"],
                "email_needs_agreement": false, "is_email_valid": true, "is_email_verified": true,
                "email": "sample@sample.com",
            ]
        )
    }
}

extension RecordMember where Value == [String]? {
    /// The members of users to return, of calls that return users.
    static func propertyKeys(_ get: @escaping @Sendable (Whole) -> [String]?) -> RecordMember {
        .optional(
            "property_keys",
            get,
            .texts(count: 1...100, length: 1...100),
            "The members to return, such as `kakao_account.email`; `kakao_account.` for all of the account."
        )
    }
}
