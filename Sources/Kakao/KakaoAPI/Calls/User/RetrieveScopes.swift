import HTTPTypes
import Schemas

/// Lists the app's scopes, and whether the user has agreed to them. (Kakao, "Kakao Login: REST API", "Retrieve consent
/// details".)
///
/// Error -101 means that the user is not linked to the app.
package struct RetrieveScopes: KakaoCall {
    package typealias Answer = UserScopes

    /// The ids of the scopes to list; all if `nil`.
    package let scopes: [String]?

    package init(scopes: [String]? = nil) {
        self.scopes = scopes
    }

    package static let operation = KakaoOperation<Self>(
        "user_scopes",
        [.get],
        "/v2/user/scopes",
        .user,
        [.userToken, .adminKeyForUser],
        "Lists the app's scopes, and whether the user has agreed to them.",
        parameters: Record(
            .optional("scopes", \.scopes, UserScopes.requested, "The ids of the scopes to list; all if it is absent."),
            make: Self.init
        ),
        answer: UserScopes.answer
    )
}
