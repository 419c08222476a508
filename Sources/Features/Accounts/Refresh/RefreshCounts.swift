import Locking

/// The outcome of a refresh: the label `outcome`.
enum RefreshOutcome: String, CaseIterable, Sendable {
    /// New tokens are stored.
    case refreshed
    /// Kakao issued new tokens, but the user had logged out or in again meanwhile.
    case superseded
    /// Kakao rejected the refresh token: the user must log in again.
    case rejected
    /// Kakao has issued too many tokens to the user, and issues the next one later.
    case limited
    /// Kakao, or the database, is unavailable.
    case failed
    /// Kakao rejects the app's key or its secret, or the settings lack a key. An operator must act.
    case misconfigured
    /// New tokens could not be stored.
    case lost
}

/// Counts refreshes by their outcome.
final class RefreshCounts: Sendable {
    private let counts = Locked<[RefreshOutcome: Int64]>([:])

    func count(_ outcome: RefreshOutcome) {
        counts.withLock { $0[outcome, default: 0] += 1 }
    }

    subscript(outcome: RefreshOutcome) -> Int64 { counts.withLock { $0[outcome] ?? 0 } }
}
