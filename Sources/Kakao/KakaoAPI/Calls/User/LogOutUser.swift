import HTTPTypes
import Schemas

/// Logs a user out. With the user's access token, that token and its refresh token become invalid; with the Admin key, all
/// tokens of the user do. (Kakao, "Kakao Login: REST API", "Logout".)
///
/// Error -401 with an access token means that the token has been invalid before: the user is logged out. It is not relayed
/// as it is, because the server's own tokens of the user end with it.
package struct LogOutUser: KakaoCall {
    package typealias Answer = UserIDAnswer

    package init() {}

    package static let operation = KakaoOperation<Self>(
        "user_logout",
        [.post],
        "/v1/user/logout",
        .user,
        [.userToken, .adminKeyForUser],
        isIdempotent: true,
        "Logs the user out.",
        parameters: Record(make: Self.init),
        answer: UserIDAnswer.answer,
        isRelayed: false,
        admitsUnlinked: true
    )
}
