internal import Locking

/// The access tokens that the sandbox has issued.
final class AccessTokens: Sendable {
    /// Tokens that are kept; one more is not issued.
    static let maximumTokens = 1_000_000

    /// What a token stands for.
    struct Grant: Sendable {
        let userID: Int64
        let appID: Int64
        /// Milliseconds since 1970.
        let end: Int64
    }

    private let grants = Locked<[String: Grant]>([:])

    /// Issues a token. Returns `nil` when there are too many.
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

    /// What a token stands for, while it is in force.
    func grant(of token: String) -> Grant? {
        grants.withLock { grants in
            guard let grant = grants[token] else { return nil }
            if grant.end > WallClock.unixMilliseconds { return grant }
            grants[token] = nil
            return nil
        }
    }

    /// Ends all tokens of a user, as logging out everywhere does.
    func revoke(userID: Int64) {
        grants.withLock { grants in grants = grants.filter { $0.value.userID != userID } }
    }
}
