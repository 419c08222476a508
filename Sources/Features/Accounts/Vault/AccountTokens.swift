import Endpoints

/// The tokens that Kakao has issued to a user.
struct AccountTokens: Sendable, CustomStringConvertible, CustomReflectable {
    var accessToken: String
    /// `nil` if an app keeps it.
    var refreshToken: String?

    var description: String { "***" }
    var customMirror: Mirror { Mirror(self, children: []) }
}

/// New tokens of a user with their lifetimes, as Kakao has issued them.
struct IssuedTokens: Sendable {
    let tokens: AccountTokens
    /// In seconds, as of now.
    let accessTokenLifetime: Double
    /// In seconds, as of now; `nil` if it did not change, or is unknown.
    let refreshTokenLifetime: Double?
    /// The scopes that the user has agreed to; `nil` if Kakao does not name them.
    let scopes: [String]?

    /// Returns the same tokens at a later time.
    func after(_ duration: Duration) -> IssuedTokens {
        IssuedTokens(
            tokens: tokens,
            accessTokenLifetime: accessTokenLifetime - duration.inSeconds,
            refreshTokenLifetime: refreshTokenLifetime.map { $0 - duration.inSeconds },
            scopes: scopes
        )
    }

    /// The time in seconds until the access token is refreshed before it is used: five minutes before its end, or a
    /// fifth of its lifetime if that is shorter.
    var secondsUntilRefresh: Double { accessTokenLifetime - max(0, min(300, accessTokenLifetime / 5)) }
}
