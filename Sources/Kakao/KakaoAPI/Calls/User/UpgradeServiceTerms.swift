import HTTPTypes
import Schemas

/// Records that a user, who has agreed in the service itself, agrees to service terms, and lists the terms that are agreed
/// to now. Terms for which that fails are absent from the list. (Kakao, "Kakao Login: REST API", "Upgrade consent for
/// service terms".)
package struct UpgradeServiceTerms: KakaoCall {
    package typealias Answer = UserServiceTerms

    /// The tags of the terms.
    package let tags: [String]

    package static let operation = KakaoOperation<Self>(
        "user_upgrade_service_terms",
        [.post],
        "/v2/user/upgrade/service_terms",
        .user,
        [.userToken, .adminKeyForUser],
        "Records the user's consent to service terms.",
        parameters: Record(
            .required("tags", \.tags, UserServiceTerms.tags, "The tags of the terms, separated by commas."),
            make: Self.init
        ),
        answer: UserServiceTerms.answer(
            "agreed_service_terms",
            "KakaoAgreedServiceTerms",
            example: Answer.Term(
                tag: "marketing",
                isAgreed: true,
                agreedAt: "2022-04-11T01:45:28Z",
                agreedBy: "KAPI"
            )
        )
    )
}
