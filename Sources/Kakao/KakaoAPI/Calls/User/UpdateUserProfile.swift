import HTTPTypes
package import JSON
import Schemas

/// Stores properties of a user at Kakao, in addition to those that are stored already. (Kakao, "Kakao Login: REST API",
/// "Store user information".)
///
/// Error -201 means that the app has not defined a property.
package struct UpdateUserProfile: KakaoCall {
    package typealias Answer = UserIDAnswer

    /// Texts, numbers and booleans by the keys that the app has defined at Kakao, which stores them as texts.
    package let properties: JSONObject

    package static let operation = KakaoOperation<Self>(
        "user_update_profile",
        [.post],
        "/v1/user/update_profile",
        .user,
        [.userToken],
        "Stores properties of the user at Kakao.",
        parameters: Record(
            .required("properties", \.properties, .scalars, "Properties of the user to store, by their keys."),
            make: Self.init
        ),
        answer: UserIDAnswer.answer
    )
}
