/// An event that changes an account, by a statement in this folder.
///
/// Kakao is called under a lease in the row, without an open transaction. The response to a refresh is stored if the row
/// still has the refresh token that was used, whatever the lease and the state: the new refresh token may be the only
/// one that Kakao accepts.
enum AccountEvent: CaseIterable, Sendable {
    /// The user logs in, or an app's tokens are imported: ``StoreLogin``.
    case logIn
    /// A server leases the account to refresh its tokens: ``ClaimRefresh``, ``ClaimRenewals``.
    case claim
    /// Kakao has issued new tokens: ``StoreRefresh``.
    case refresh
    /// Kakao rejects the refresh token: ``RejectRefresh``.
    case reject
    /// Kakao cannot refresh the tokens now: ``PostponeRefresh``.
    case postpone
    /// The refresh token expires: ``ExpireAccounts``.
    case expire
    /// The user logs out, or Kakao reports that tokens were revoked: ``EndAccounts``.
    case revoke
    /// The user leaves the app: ``EndAccounts``.
    case leave
    /// Kakao confirms that imported tokens are the user's: ``VerifyAccount``.
    case verify
    /// The access token is no longer trusted: ``ExpireAccessToken``.
    case distrust
    /// The tokens are encrypted under another key: ``StoreReencryption``.
    case reencrypt
    /// The user is erased: ``DeleteAccount``.
    case erase

    /// The states in which the event changes an account, and the states that it leads to; `nil` stands for no row. In any
    /// other state its statement changes nothing.
    var transitions: [AccountState?: AccountState?] {
        switch self {
        case .logIn:
            [nil: .linked, .linked: .linked, .loginRequired: .linked, .unlinked: .linked]
        case .claim, .postpone, .distrust: [.linked: .linked]
        case .verify: [.linked: .linked, .loginRequired: .loginRequired]
        case .refresh: [.linked: .linked, .loginRequired: .linked]
        case .reject, .expire: [.linked: .loginRequired]
        case .revoke: [.linked: .loginRequired, .loginRequired: .loginRequired]
        case .leave: [.linked: .unlinked, .loginRequired: .unlinked]
        case .reencrypt: [.linked: .linked, .loginRequired: .loginRequired]
        case .erase: [.linked: nil, .loginRequired: nil, .unlinked: nil]
        }
    }

    /// The columns that the event sets in an existing row.
    var columns: Set<String> {
        switch self {
        case .logIn:
            Self.tokens.union(Self.lease).union([
                "state", "reason", "app_key", "refreshed_by", "scopes", "refresh_token_ends_at", "renew_at", "attempts",
                "retry_at", "linked_at", "refreshed_at", "is_verified",
            ])
        case .claim: Self.lease
        case .refresh:
            Self.tokens.union(Self.lease).union([
                "state", "reason", "scopes", "refresh_token_ends_at", "renew_at", "attempts", "retry_at",
                "refreshed_at",
            ])
        case .reject, .expire: Self.lease.union(["state", "reason"])
        case .postpone: Self.lease.union(["attempts", "retry_at", "renew_at"])
        case .revoke, .leave:
            Self.tokens.union(Self.lease).union([
                "state", "reason", "refresh_token_ends_at", "renew_at", "attempts", "retry_at",
            ])
        case .verify: ["is_verified"]
        case .distrust: ["access_token_ends_at", "refresh_at", "retry_at"]
        case .reencrypt: ["tokens", "key_id"]
        case .erase: []
        }
    }

    private static let tokens: Set = [
        "tokens", "key_id", "refresh_token_sha256", "access_token_ends_at", "refresh_at",
    ]
    private static let lease: Set = ["lease", "lease_ends_at"]
}
