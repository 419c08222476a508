import Endpoints
import FoundationEssentials
import Schemas

/// An access token of an account.
struct AccessToken: Sendable {
    let text: String
    let expiresAt: Date
    let scopes: [String]

    init(_ text: String, _ account: StoredTokens) {
        self.text = text
        expiresAt = account.accessTokenEndsAt ?? .distantPast
        scopes = account.scopes
    }
}

extension AccessToken {
    static let shape = Shape<AccessToken>(
        "AccessToken",
        [
            .member("access_token", .text, "The access token.", \.text),
            .member("expires_at", .time, "When it expires.", \.expiresAt),
            .array("scopes", .text, "The scopes that the user has agreed to.", \.scopes),
        ]
    )
}
