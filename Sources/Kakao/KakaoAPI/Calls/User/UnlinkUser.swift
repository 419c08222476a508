import HTTPTypes
import Schemas

/// Unlinks a user from the app. All tokens of the user become invalid, and the user's consent ends. Kakao sends no unlink
/// notice for it. (Kakao, "Kakao Login: REST API", "Unlink".)
///
/// Error -101 with the Admin key means that the user is not linked, -401 with an access token that the token is invalid. A
/// second call ends with one of them. It is not relayed as it is, because the user's data here ends with it.
package struct UnlinkUser: KakaoCall {
    package typealias Answer = UserIDAnswer

    package init() {}

    package static let operation = KakaoOperation<Self>(
        "user_unlink",
        [.post],
        "/v1/user/unlink",
        .user,
        [.userToken, .adminKeyForUser],
        isIdempotent: true,
        "Unlinks the user from the app.",
        parameters: Record(make: Self.init),
        answer: UserIDAnswer.answer,
        isRelayed: false,
        admitsUnlinked: true
    )
}
