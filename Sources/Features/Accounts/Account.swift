import Endpoints
import FoundationEssentials
import Postgres
import Schemas

/// The state of an account.
enum AccountState: String, CaseIterable, Sendable, StoredChoice {
    /// The server has tokens of the user, which Kakao accepts as far as is known. Can transition to ``loginRequired`` and
    /// ``unlinked``.
    case linked
    /// The user must log in again: ``Account/reason`` says why. Can transition to ``linked`` and ``unlinked``.
    case loginRequired = "login_required"
    /// The user has left the app. Can transition to ``linked``.
    case unlinked
}

/// The reason why a user must log in again.
enum LoginReason: String, CaseIterable, Sendable {
    /// The user was logged out by a call to this server.
    case loggedOut = "logged_out"
    /// Kakao reported that the user's tokens were revoked.
    case revoked = "tokens_revoked"
    /// Kakao rejected the refresh token: the user logged out, changed the password, or a response to an earlier refresh
    /// was lost.
    case rejected = "refresh_token_rejected"
    /// The refresh token has expired.
    case expired = "refresh_token_expired"
}

/// An app key that tokens are issued for.
enum AppKeyKind: String, CaseIterable, Sendable, StoredChoice {
    case rest, native, javascript

    /// The setting with the key.
    var setting: String {
        switch self {
        case .rest: "kakao.rest_api_key"
        case .native: "kakao.native_app_key"
        case .javascript: "kakao.javascript_key"
        }
    }
}

/// The side that refreshes the tokens of an account. If both did, each would invalidate the other's tokens.
enum RefreshingSide: String, CaseIterable, Sendable, StoredChoice {
    case server, app
}

/// A user whose Kakao tokens the server keeps, without the tokens.
struct Account: Sendable {
    let userID: Int64
    let state: AccountState
    let reason: String?
    let appKey: AppKeyKind
    let refreshedBy: RefreshingSide
    let scopes: [String]
    let accessTokenEndsAt: Date?
    let refreshTokenEndsAt: Date?
    let createdAt: Date
    let linkedAt: Date
    let refreshedAt: Date?

    static let shape = Shape<Account>(
        "Account",
        [
            .member("user_id", .userID, "The user.", \.userID),
            .member("state", .choice, "The state of the account.", \.state),
            .nullable("reason", .text(oneOf: LoginReason.allCases.map(\.rawValue)), "Why the user must log in again.") {
                $0.reason
            },
            .array(
                "scopes",
                .text,
                "The scopes that the user has agreed to, as of the last login or refresh.",
                \.scopes
            ),
            .member("app_key", .choice, "The app key that the tokens were issued for.", \.appKey),
            .member("refreshed_by", .choice, "The side that refreshes the tokens.", \.refreshedBy),
            .nullable("access_token_ends_at", .time, "When the access token expires.", \.accessTokenEndsAt),
            .nullable("refresh_token_ends_at", .time, "When the refresh token expires.", \.refreshTokenEndsAt),
            .member("created_at", .time, "The first login.", \.createdAt),
            .member("linked_at", .time, "The last login.", \.linkedAt),
            .nullable("refreshed_at", .time, "The last refresh of the access token.", \.refreshedAt),
        ]
    )
}
