import HTTPTypes
import Schemas

/// Revokes a user's consent to service terms, and lists the terms whose consent was revoked. Terms that the user has not
/// agreed to and terms that are not revocable are absent from the list. (Kakao, "Kakao Login: REST API", "Revoke consent
/// for service terms".)
package struct RevokeServiceTerms: KakaoCall {
    package typealias Answer = UserServiceTerms

    /// The tags of the terms.
    package let tags: [String]

    package static let operation = KakaoOperation<Self>(
        "user_revoke_service_terms",
        [.post],
        "/v2/user/revoke/service_terms",
        .user,
        [.userToken, .adminKeyForUser],
        isIdempotent: true,
        "Revokes the user's consent to service terms.",
        parameters: Record(
            .required("tags", \.tags, UserServiceTerms.tags, "The tags of the terms, separated by commas."),
            make: Self.init
        ),
        answer: UserServiceTerms.answer(
            "revoked_service_terms",
            "KakaoRevokedServiceTerms",
            example: Answer.Term(tag: "marketing", isAgreed: false)
        )
    )
}
