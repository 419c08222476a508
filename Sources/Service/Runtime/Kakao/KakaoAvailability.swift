import EventLoop
package import FoundationEssentials
package import KakaoAPI
import Locking
package import Logging
import Synchronization

/// The availability of Kakao. It covers whether Kakao accepts the Admin key, according to the latest response that
/// shows it, and whether a quota makes the sender wait.
///
/// `GET /v1/status` and the metrics show it, because with a rejected key the server accepts requests that it cannot
/// carry out.
package final class KakaoAvailability: Sendable {
    /// The state of the sender, on which a push that is sent now depends.
    package enum SenderState: String, CaseIterable, Sendable {
        /// Pushes go to Kakao.
        case running
        /// Pushes wait, because a quota is used up.
        case waiting
        /// Pushes are halted until an operator acts, because Kakao rejects the key or the app.
        case halted
        /// An operator has stopped pushes and KakaoTalk messages (``SenderControl``).
        case stopped
    }

    /// Whether Kakao responds, as far as is known.
    package enum KakaoState: String, CaseIterable, Sendable {
        /// No call has ended yet.
        case unknown
        case reachable
        case unreachable
        /// Kakao responds, but rejects the key or the app.
        case refusing
    }

    /// The outcome of the latest calls to Kakao.
    package struct LastCall: Sendable {
        package fileprivate(set) var at: Date
        fileprivate var isAnswered: Bool
        package fileprivate(set) var lastError: KakaoOutcome?
        package fileprivate(set) var lastErrorAt: Date?
    }

    /// What is known of calls that have ended.
    private struct Calls: Sendable {
        var last: LastCall?
        var recent = RecentCalls()
        /// The calls that Kakao has answered since ``drainAnsweredCalls()``.
        var answered: Int64 = 0
    }

    private let calls = Locked(Calls())
    private let refusal = Locked<String?>(nil)
    /// Whether Kakao has accepted or rejected the Admin key since the server started.
    private let isKnown = Atomic<Bool>(false)
    private let observers = Locked<[@Sendable () -> Void]>([])
    private let quotaWaitEnd = Locked(MonotonicTime.now)
    private let logger: Logger

    package init(logger: Logger) {
        self.logger = logger
    }

    /// The reason why Kakao rejects calls; `nil` while it accepts them.
    package var refusalReason: String? {
        refusal.withLock { $0 }
    }

    /// Whether Kakao has accepted or rejected the Admin key since the server started.
    package var hasAnswer: Bool { isKnown.load(ordering: .relaxed) }

    /// Registers an observer, called when Kakao begins to accept or to reject the Admin key, rejects it for another reason, or
    /// answers for the first time. Called before the server starts.
    func onChange(_ observer: @escaping @Sendable () -> Void) {
        observers.withLock { $0.append(observer) }
    }

    /// The latest call of any kind; `nil` before the first.
    package var lastCall: LastCall? { calls.withLock { $0.last } }

    /// The calls of the last minutes.
    package var recentCalls: RecentCalls.Totals {
        let now = EventLoop.milliseconds()
        return calls.withLock { $0.recent.totals(at: now) }
    }

    /// Returns the number of calls that Kakao has answered since the last time.
    package func drainAnsweredCalls() -> Int64 {
        calls.withLock { calls in
            defer { calls.answered = 0 }
            return calls.answered
        }
    }

    /// Restores a number that could not be stored.
    package func restore(answeredCalls number: Int64) {
        calls.withLock { $0.answered += number }
    }

    package var kakaoState: KakaoState {
        guard let lastCall else { return .unknown }
        guard lastCall.isAnswered else { return .unreachable }
        return refusalReason == nil ? .reachable : .refusing
    }

    /// Records a call that has ended, and whether Kakao accepts the Admin key. Callable from anywhere.
    package func record(_ call: KakaoCallReport) {
        // Other calls say nothing about pushes: a key may be allowed to make some calls only.
        if call.family == .push { recordAdminKey(call.error) }
        let now = Date()
        let outcome = KakaoOutcome(call.error)
        let isAnswered =
            switch call.error?.kind {
            case .unreachable: false
            case .refused, .badAnswer, nil: true
            }
        // A call that this server cancelled says nothing about Kakao.
        guard outcome != .givenUp else { return }
        let milliseconds = EventLoop.milliseconds()
        calls.withLock { calls in
            calls.last = LastCall(
                at: now,
                isAnswered: isAnswered,
                lastError: outcome == .ok ? calls.last?.lastError : outcome,
                lastErrorAt: outcome == .ok ? calls.last?.lastErrorAt : now
            )
            if isAnswered { calls.answered += 1 }
            calls.recent.add(call.duration, hasFailed: outcome != .ok && outcome != .refused, at: milliseconds)
        }
    }

    /// The state of the sender unless an operator has stopped it.
    package var senderState: SenderState {
        if refusalReason != nil { return .halted }
        return quotaWaitEnd.withLock { $0 } > MonotonicTime.now ? .waiting : .running
    }

    /// Records that a quota is used up: the sender makes no calls for the duration of `wait`.
    package func recordQuotaExhaustion(for wait: Duration) {
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
        if wasRefused { logger.notice("Kakao calls accepted again") }
        announce(wasRefused)
    }

    private func announce(_ isNew: Bool) {
        guard !isKnown.exchange(true, ordering: .relaxed) || isNew else { return }
        for observer in observers.withLock({ $0 }) { observer() }
    }

    private func recordRefusal(_ reason: String) {
        let isNew = refusal.withLock { refusal in
            defer { refusal = reason }
            return refusal != reason
        }
        if isNew {
            logger.critical(
                "Kakao calls rejected: check the Admin key and the app",
                metadata: ["kakao": "\(reason)"]
            )
        }
        announce(isNew)
    }
}
