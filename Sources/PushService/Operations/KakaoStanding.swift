internal import KakaoAPI
internal import Locking
internal import Logging

/// Whether Kakao accepts our Admin key: what it last said of it, on whatever call; and whether it asks the sender to wait.
///
/// Readiness and metrics tell it, since with a refused key the server takes requests that come to nothing.
final class KakaoStanding: Sendable {
    /// What becomes of a push that is sent now.
    enum SenderState: CaseIterable, Sendable {
        /// It goes to Kakao.
        case running
        /// It waits: a quota is used up.
        case waiting
        /// It comes to nothing until an operator has seen to it: Kakao refuses the key or the app.
        case halted
    }

    private let refusal = Locked<String?>(nil)
    private let quotaWaitEnd = Locked(ContinuousClock.now)
    private let logger: Logger

    init(logger: Logger) {
        self.logger = logger
    }

    /// Why Kakao refuses us, or `nil` while it does not.
    var refusalReason: String? {
        refusal.withLock { $0 }
    }

    var senderState: SenderState {
        if refusalReason != nil { return .halted }
        return quotaWaitEnd.withLock { $0 } > ContinuousClock.now ? .waiting : .running
    }

    /// A quota is used up: the sender begins nothing for so long.
    func noteQuotaUsedUp(for wait: Duration) {
        quotaWaitEnd.withLock { $0 = ContinuousClock.now + wait }
    }

    func noteAccepted() {
        let wasRefused = refusal.withLock { refusal in
            defer { refusal = nil }
            return refusal != nil
        }
        if wasRefused { logger.notice("Kakao accepts our calls again") }
    }

    func note(_ error: KakaoError) {
        guard error.disposition == .halt else { return }
        let reason = error.description
        let isNews = refusal.withLock { refusal in
            defer { refusal = reason }
            return refusal != reason
        }
        if isNews {
            logger.critical(
                "Kakao refuses our calls; check the Admin key and the app",
                metadata: ["kakao": "\(reason)"]
            )
        }
    }
}
