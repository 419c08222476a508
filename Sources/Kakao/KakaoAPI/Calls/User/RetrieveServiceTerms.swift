import HTTPTypes
import Schemas

/// Lists the service terms that a user has agreed to, or all terms of the app. For apps with Kakao Sync. (Kakao, "Kakao
/// Login: REST API", "Retrieve consent details for service terms".)
///
/// Error -2 means that a tag is unknown.
package struct RetrieveServiceTerms: KakaoCall {
    package typealias Answer = UserServiceTerms

    /// The list to return.
    package enum Selection: String, CaseIterable, Sendable {
        case agreed = "agreed_service_terms"
        case all = "app_service_terms"
    }

    /// The list to return; `nil` for ``Selection/agreed``.
    package var result: Selection?
    /// The tags to return from the list; all if `nil`.
    package var tags: [String]?

    package static let operation = KakaoOperation<Self>(
        "user_service_terms",
        [.get],
        "/v2/user/service_terms",
        .user,
        [.userToken, .adminKeyForUser],
        "Lists the service terms that the user has agreed to, or all terms of the app.",
        parameters: Record(
            .optional("result", \.result, .choice, "The list to return; `agreed_service_terms` if it is absent."),
            .optional("tags", \.tags, UserServiceTerms.tags, "The tags to return from the list, separated by commas."),
            make: Self.init
        ),
        answer: UserServiceTerms.answer(
            "service_terms",
            "KakaoServiceTerms",
            example: Answer.Term(
                tag: "marketing",
                isRequired: false,
                isAgreed: true,
                isRevocable: true,
                agreedAt: "2022-04-11T01:45:28Z",
                agreedBy: "KAUTH"
            )
        )
    )
}
