import HTTPTypes
package import JSON
import Schemas

/// Links a user who has logged in to an app that does not link its users automatically. Kakao unlinks a user who does not
/// sign up within 24 hours. (Kakao, "Kakao Login: REST API", "Manual signup".)
///
/// Error -102 means that the user is linked already, -201 that the app has not defined a property.
package struct SignUpUser: KakaoCall {
    package typealias Answer = UserIDAnswer

    /// Texts, numbers and booleans by the keys that the app has defined at Kakao, which stores them as texts.
    package var properties: JSONObject?

    package static let operation = KakaoOperation<Self>(
        "user_signup",
        [.post],
        "/v1/user/signup",
        .user,
        [.userToken],
        "Links a user who has logged in, in an app that does not link its users automatically.",
        parameters: Record(
            .optional("properties", \.properties, .scalars, "Properties of the user to store, by their keys."),
            make: Self.init
        ),
        answer: UserIDAnswer.answer,
        admitsUnlinked: true
    )
}
