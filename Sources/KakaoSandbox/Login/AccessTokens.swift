internal import Locking

/// The access tokens that the sandbox has issued.
final class AccessTokens: Sendable {
    /// The maximum number of stored tokens. No further tokens are issued.
    static let maximumTokens = 1_000_000

    /// The user and app of a token, and when it expires.
    struct Grant: Sendable {
        let userID: Int64
        let appID: Int64
        /// The time of expiry in Unix milliseconds.
        let end: Int64
    }

    private let grants = Locked<[String: Grant]>([:])

    /// Issues a token. Returns `nil` if ``maximumTokens`` are stored.
    func issue(_ grant: Grant) -> String? {
        let token = (0..<3).map { _ in
            let digits = String(UInt64.random(in: .min ... .max), radix: 36)
            return String(repeating: "0", count: 13 - digits.utf8.count) + digits
        }.joined()
        return grants.withLock { grants in
            guard grants.count < Self.maximumTokens else { return nil }
            grants[token] = grant
            return token
        }
    }

    /// Returns the grant of a token, or `nil` if the token is unknown or has expired.
    func grant(of token: String) -> Grant? {
        grants.withLock { grants in
            guard let grant = grants[token] else { return nil }
            if grant.end > WallClock.unixMilliseconds { return grant }
            grants[token] = nil
            return nil
        }
    }

    /// Revokes a token, as a logout with this token does.
    func revoke(_ token: String) {
        grants.withLock { $0[token] = nil }
    }

    /// Revokes all tokens of a user, as a logout on all devices does.
    func revoke(userID: Int64) {
        grants.withLock { grants in grants = grants.filter { $0.value.userID != userID } }
    }
}
