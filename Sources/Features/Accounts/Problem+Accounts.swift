import Endpoints
import HTTPServer
import HTTPTypes
import JSON
import Runtime

// The problems of operations on accounts.
extension ProblemKind {
    static let refreshedByApp = ProblemKind(
        .conflict,
        "refreshed-by-app",
        "The access token has expired, and only the user's app may refresh it."
    )
    static let tokenMismatch = ProblemKind(
        .unprocessableContent,
        "token-mismatch",
        "Kakao does not accept the access token, or issued it for another app or another user."
    )
    static let unlinkPending = ProblemKind(.conflict, "unlink-pending", "The user is being unlinked.")
    static let unknownTicket = ProblemKind(
        .notFound,
        "unknown-ticket",
        "The ticket is invalid, expired, or redeemed already."
    )
    static let codeInUse = ProblemKind(
        .conflict,
        "code-in-use",
        "The authorization code was sent with another operator key or other parameters."
    )
    static let invalidIDToken = ProblemKind(
        .unprocessableContent,
        "invalid-id-token",
        "The ID token of a login is not Kakao's, or does not have the nonce."
    )
}

extension Problem {
    static var accountsDisabled: Problem {
        Problem(of: .notConfigured, AccountsDisabled().description)
    }

    static func appKeyMissing(_ key: AppKeyKind) -> Problem {
        Problem(
            of: .notConfigured,
            "Set \(key.setting): tokens of this key are neither issued nor refreshed without it."
        )
    }

    static var unreadableTokens: Problem {
        Problem(
            of: .notConfigured,
            "The tokens of this user cannot be decrypted. Add the key that encrypted them to accounts.decryption_keys."
        )
    }

    static func loginRequired(_ reason: String?) -> Problem {
        Problem(
            of: .accountLoginRequired,
            reason.map { "The user must log in again: \($0)." }
                ?? "The server has no tokens of the user, who must log in.",
            members: reason.map { ["reason": .string($0)] } ?? [:]
        )
    }

    static var refreshedByApp: Problem {
        Problem(
            of: .refreshedByApp,
            "The access token has expired, and the user's app refreshes it. Import the new tokens with PUT /v1/accounts/{user_id}/tokens."
        )
    }

    static func refreshPaused(seconds: Double) -> Problem {
        Problem(
            of: .kakaoUnavailable,
            "The access token has expired, and Kakao cannot refresh it now. Try again.",
            headerFields: [.retryAfter: String(Int64(min(max(1, seconds.rounded(.up)), 3600)))]
        )
    }
}
