import Schemas

/// The scopes (consent items) of an app, and whether a user has agreed to them.
package struct UserScopes: Sendable {
    package let userID: Int64
    package let scopes: [Scope]?

    package init(userID: Int64, scopes: [Scope]?) {
        self.userID = userID
        self.scopes = scopes
    }

    package struct Scope: Sendable {
        /// The id: `account_email`.
        package let id: String
        /// The name that Kakao shows to users.
        package let displayName: String?
        /// `PRIVACY` for personal information, `SERVICE` for a permission.
        package let type: String?
        /// Whether the app still uses the scope. Kakao also lists scopes that the user agreed to before.
        package let isUsed: Bool?
        package let isAgreed: Bool
        /// Whether the consent can be revoked; `nil` if the user has not agreed.
        package let isRevocable: Bool?

        package init(
            id: String,
            displayName: String?,
            type: String?,
            isUsed: Bool?,
            isAgreed: Bool,
            isRevocable: Bool?
        ) {
            self.id = id
            self.displayName = displayName
            self.type = type
            self.isUsed = isUsed
            self.isAgreed = isAgreed
            self.isRevocable = isRevocable
        }

        fileprivate static let record = Record<Scope>(
            .required("id", \.id, .text, "The id of the scope."),
            .optional("display_name", \.displayName, .text, "The name that Kakao shows to users."),
            .optional("type", \.type, .text, "`PRIVACY` for personal information, `SERVICE` for a permission."),
            .optional("using", \.isUsed, .boolean, "Whether the app still uses the scope."),
            .required("agreed", \.isAgreed, .boolean, "Whether the user has agreed."),
            .optional(
                "revocable",
                \.isRevocable,
                .boolean,
                "Whether the consent can be revoked; absent if the user has not agreed."
            ),
            make: Scope.init
        )
    }

    static let answer = KakaoAnswer.json(
        Record<UserScopes>(
            .required("id", \.userID, .kakaoID, "The user."),
            .optional("scopes", \.scopes, Scope.record.kind("KakaoScope").array, "The scopes."),
            make: UserScopes.init
        )
        .kind("KakaoUserScopes"),
        example: UserScopes(
            userID: 123_456_789,
            scopes: [
                Scope(
                    id: "account_email",
                    displayName: "카카오계정(이메일)",
                    type: "PRIVACY",
                    isUsed: true,
                    isAgreed: true,
                    isRevocable: true
                )
            ]
        )
    )

    /// The scopes in a request.
    static let requested = Kind<[String]>.texts(count: 1...100, length: 1...64)
}
