import Schemas

/// Terms of the service that Kakao presents to users (Kakao Sync), and whether a user has agreed to them.
package struct UserServiceTerms: Sendable {
    package let userID: Int64
    package let terms: [Term]?

    package init(userID: Int64, terms: [Term]?) {
        self.userID = userID
        self.terms = terms
    }

    package struct Term: Sendable {
        /// The tag, by which requests name the terms.
        package let tag: String
        /// Whether users must agree; `nil` in the answer of a call that changes the consent.
        package let isRequired: Bool?
        package let isAgreed: Bool
        /// Whether the consent can be revoked; `nil` in the answer of a call that changes the consent.
        package let isRevocable: Bool?
        /// The time of the last consent: `2022-04-11T01:45:28Z`.
        package let agreedAt: String?
        /// `KAUTH` for a consent at login, `KAPI` for one by ``UpgradeServiceTerms``.
        package let agreedBy: String?

        package init(
            tag: String,
            isRequired: Bool? = nil,
            isAgreed: Bool,
            isRevocable: Bool? = nil,
            agreedAt: String? = nil,
            agreedBy: String? = nil
        ) {
            self.tag = tag
            self.isRequired = isRequired
            self.isAgreed = isAgreed
            self.isRevocable = isRevocable
            self.agreedAt = agreedAt
            self.agreedBy = agreedBy
        }

        fileprivate static let kind = Record<Term>(
            .required("tag", \.tag, .text, "The tag of the terms."),
            .optional("required", \.isRequired, .boolean, "Whether users must agree."),
            .required("agreed", \.isAgreed, .boolean, "Whether the user has agreed."),
            .optional("revocable", \.isRevocable, .boolean, "Whether the consent can be revoked."),
            .optional("agreed_at", \.agreedAt, .text, "The time of the last consent."),
            .optional("agreed_by", \.agreedBy, .text, "`KAUTH` for a consent at login, `KAPI` for one by a call."),
            make: Term.init
        )
        .kind("KakaoServiceTerm")
    }

    /// Returns the answer of a call.
    ///
    /// - Parameters:
    ///   - list: The name of the list of terms.
    ///   - name: The name of the answer's schema.
    ///   - example: An element of the list.
    static func answer(_ list: String, _ name: String, example: Term) -> KakaoAnswer<UserServiceTerms> {
        .json(
            Record<UserServiceTerms>(
                .required("id", \.userID, .kakaoID, "The user."),
                .optional(list, \.terms, Term.kind.array, "The terms."),
                make: UserServiceTerms.init
            )
            .kind(name),
            example: UserServiceTerms(userID: 123_456_789, terms: [example])
        )
    }

    /// The tags in a request.
    static let tags = Kind<[String]>.commaList(count: 100, length: 64)
}
