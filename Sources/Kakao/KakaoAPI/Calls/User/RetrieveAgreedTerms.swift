import HTTPTypes
import Schemas

/// Lists the service terms that a user has agreed to, as older clients call it: ``RetrieveServiceTerms`` has replaced it. (Names as
/// in Kakao's iOS SDK 2.14.0, `UserApi.serviceTerms`.)
package struct RetrieveAgreedTerms: KakaoCall {
    /// The terms to return besides those that the user has agreed to.
    package enum Extra: String, CaseIterable, Sendable {
        case all = "app_service_terms"
    }

    /// The terms to return in addition; `nil` for none.
    package let extra: Extra?

    package static let operation = KakaoOperation<Self>(
        "user_service_terms_v1",
        [.get, .post],
        "/v1/user/service/terms",
        .user,
        [.userToken, .adminKeyForUser],
        "Lists the service terms that the user has agreed to. Older clients use it.",
        parameters: Record(
            .optional("extra", \.extra, .choice, "`app_service_terms` for all terms of the app too."),
            make: Self.init
        ),
        answer: .json(
            Answer.record.kind("KakaoAgreedTerms"),
            example: Answer(
                userID: 123_456_789,
                agreed: [Agreed(tag: "marketing", agreedAt: "2022-04-11T01:45:28Z")],
                all: nil
            )
        )
    )

    /// Terms that the user has agreed to.
    package struct Agreed: Sendable {
        package let tag: String
        /// The time of the last consent.
        package let agreedAt: String

        package init(tag: String, agreedAt: String) {
            self.tag = tag
            self.agreedAt = agreedAt
        }

        fileprivate static let record = Record<Agreed>(
            .required("tag", \.tag, .text, "The tag of the terms."),
            .required("agreed_at", \.agreedAt, .text, "The time of the last consent."),
            make: Agreed.init
        )
    }

    /// Terms of the app.
    package struct Terms: Sendable {
        package let tag: String
        package let createdAt: String
        package let updatedAt: String

        package init(tag: String, createdAt: String, updatedAt: String) {
            self.tag = tag
            self.createdAt = createdAt
            self.updatedAt = updatedAt
        }

        fileprivate static let record = Record<Terms>(
            .required("tag", \.tag, .text, "The tag of the terms."),
            .required("created_at", \.createdAt, .text, "The time at which the app got the terms."),
            .required("updated_at", \.updatedAt, .text, "The time of their last change."),
            make: Terms.init
        )
    }

    package struct Answer: Sendable {
        package let userID: Int64?
        package let agreed: [Agreed]?
        /// All terms of the app; `nil` if the request did not ask for them.
        package let all: [Terms]?

        package init(userID: Int64?, agreed: [Agreed]?, all: [Terms]?) {
            self.userID = userID
            self.agreed = agreed
            self.all = all
        }

        fileprivate static let record = Record<Answer>(
            .optional("user_id", \.userID, .kakaoID, "The user."),
            .optional(
                "allowed_service_terms",
                \.agreed,
                Agreed.record.kind("KakaoAgreedTerm").array,
                "The terms that the user has agreed to."
            ),
            .optional(
                "app_service_terms",
                \.all,
                Terms.record.kind("KakaoAppTerm").array,
                "All terms of the app, if `extra` asks for them."
            ),
            make: Answer.init
        )
    }
}
