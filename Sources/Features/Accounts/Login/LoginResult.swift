import Endpoints
import FoundationEssentials
import JSON
import Schemas

/// The result of a login, for the backend that redeems a ticket or sends an authorization code.
struct LoginResult: Sendable {
    let userID: Int64
    /// Whether the server had no account of the user.
    let isNew: Bool
    let scopes: [String]
    /// The claims of the ID token, which was verified; `nil` without one.
    let idToken: JSONObject?
    let accessTokenEndsAt: Date
    /// `nil` if it is not known.
    let refreshTokenEndsAt: Date?

    /// Returns the user of a result as JSON; `nil` for other JSON.
    static func userID(inJSON json: [UInt8]) -> Int64? {
        (try? JSONValue(parsing: json))?["user_id"]?.string.flatMap { Int64(decimal: $0) }
    }

    static let shape = Shape<LoginResult>(
        "LoginResult",
        [
            .member("user_id", .userID, "The user.", \.userID),
            .member("is_new", .boolean, "Whether the server had no account of the user.", \.isNew),
            .array("scopes", .text, "The scopes that the user has agreed to.", \.scopes),
            .nullable("id_token", .object, "The claims of the ID token; null without OpenID Connect.", \.idToken),
            .member("access_token_ends_at", .time, "When the access token expires.", \.accessTokenEndsAt),
            .nullable("refresh_token_ends_at", .time, "When the refresh token expires.", \.refreshTokenEndsAt),
        ]
    )
}
