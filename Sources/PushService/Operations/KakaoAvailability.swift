internal import EventLoop
internal import FoundationEssentials
internal import KakaoAPI
internal import Locking
internal import Logging

/// Whether Kakao accepts our Admin key: what it last said of it, on whatever call; and whether it asks the sender to wait.
///
/// `GET /v1/status` and the metrics show it: with a rejected key the server accepts requests that it cannot carry out.
final class KakaoAvailability: Sendable {
    /// What becomes of a push that is sent now.
    enum SenderState: CaseIterable, Sendable {
        /// It goes to Kakao.
        case running
        /// It waits: a quota is used up.
        case waiting
        /// It comes to nothing until an operator has seen to it: Kakao refuses the key or the app.
        case halted
    }

    /// Whether Kakao answers, as far as is known.
    enum KakaoState: String, Sendable {
        /// Nothing was called yet.
        case unknown
        case reachable
        case unreachable
        /// It answers, and rejects the key or the app.
        case refusing
    }

    /// The outcome of the latest calls to Kakao.
    struct LastCall: Sendable {
        var at: Date
        var isAnswered: Bool
        var lastError: ServerMetrics.KakaoOutcome?
        var lastErrorAt: Date?
    }

    private let call = Locked<LastCall?>(nil)
    private let refusal = Locked<String?>(nil)
    private let quotaWaitEnd = Locked(MonotonicTime.now)
    private let logger: Logger

    init(logger: Logger) {
        self.logger = logger
    }

    /// Why Kakao refuses us, or `nil` while it does not.
    var refusalReason: String? {
        refusal.withLock { $0 }
    }

    /// The last call, whatever it was for; `nil` before the first.
    var lastCall: LastCall? { call.withLock { $0 } }

    var kakaoState: KakaoState {
        guard let lastCall else { return .unknown }
        guard lastCall.isAnswered else { return .unreachable }
        return refusalReason == nil ? .reachable : .refusing
    }

    /// Records a call that has ended, and whether Kakao accepts the Admin key. Callable from anywhere.
    func record(_ call: KakaoCall) {
        if call.api.usesAdminKey { recordAdminKey(call.error) }
        let now = Date()
        let outcome = ServerMetrics.KakaoOutcome(call.error)
        let isAnswered =
            switch call.error?.kind {
            case .unreachable: false
            case .refused, .badAnswer, nil: true
            }
        // Calls that this server has given up say nothing of Kakao.
        guard outcome != .givenUp else { return }
        self.call.withLock { last in
            last = LastCall(
                at: now,
                isAnswered: isAnswered,
                lastError: outcome == .ok ? last?.lastError : outcome,
                lastErrorAt: outcome == .ok ? last?.lastErrorAt : now
            )
        }
    }

    var senderState: SenderState {
        if refusalReason != nil { return .halted }
        return quotaWaitEnd.withLock { $0 } > MonotonicTime.now ? .waiting : .running
    }

    /// A quota is used up: the sender begins nothing for so long.
    func recordQuotaExhaustion(for wait: Duration) {
        quotaWaitEnd.withLock { $0 = MonotonicTime.now + wait }
    }

    private func recordAdminKey(_ error: KakaoError?) {
        guard let error else { return recordAcceptance() }
        if error.disposition == .halt { recordRefusal(error.description) }
    }

    private func recordAcceptance() {
        let wasRefused = refusal.withLock { refusal in
            defer { refusal = nil }
            return refusal != nil
        }
        if wasRefused { logger.notice("Kakao accepts our calls again") }
    }

    private func recordRefusal(_ reason: String) {
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
