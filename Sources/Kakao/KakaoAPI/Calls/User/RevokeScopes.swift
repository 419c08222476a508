import HTTPTypes
import Schemas

/// Revokes a user's consent to scopes, and lists the scopes as they are afterwards. (Kakao, "Kakao Login: REST API",
/// "Revoke consent".)
///
/// Error -3 (403) means that one of the scopes is not revocable, -2 that the user has agreed to none of them.
package struct RevokeScopes: KakaoCall {
    package typealias Answer = UserScopes

    /// The ids of the scopes.
    package let scopes: [String]

    package static let operation = KakaoOperation<Self>(
        "user_revoke_scopes",
        [.post],
        "/v2/user/revoke/scopes",
        .user,
        [.userToken, .adminKeyForUser],
        isIdempotent: true,
        "Revokes the user's consent to scopes.",
        parameters: Record(
            .required("scopes", \.scopes, UserScopes.requested, "The ids of the scopes."),
            make: Self.init
        ),
        answer: UserScopes.answer
    )
}
