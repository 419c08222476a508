import EventLoop
import FoundationEssentials
import KakaoAPI
import Locking
import LogOutput
import Logging
import Synchronization

/// The availability of Kakao: whether Kakao responds and accepts the Admin key, for each kind of calls, and whether a quota makes
/// the sender wait.
///
/// `GET /v1/status` and the metrics show it, because with a rejected key the server accepts requests that it cannot
/// carry out.
package final class KakaoAvailability: Sendable {
    /// The state of the sender, on which a push that is sent now depends.
    package enum SenderState: String, CaseIterable, Sendable {
        /// Pushes go to Kakao.
        case running
        /// Pushes wait: a quota is used up, or something else has responded in Kakao's place for less than a minute.
        case waiting
        /// Pushes are not sent, because Kakao rejects the key or the app, or something else responds in its place.
        case halted
        /// An operator has stopped pushes and KakaoTalk messages (``SenderControl``).
        case stopped
        /// Whether an operator has stopped them is unknown, because PostgreSQL does not respond.
        case unknown
    }

    /// Whether Kakao responds, as far as is known.
    package enum KakaoState: String, CaseIterable, Sendable {
        /// No call has ended yet.
        case unknown
        case reachable
        /// Kakao responds, but to all calls with an error of its own.
        case failing
        case unreachable
        /// Kakao responds, but rejects the key or the app.
        case refusing
        /// Something else responds in Kakao's place.
        case intercepted
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
        var streak = FailureStreak()
        var lastForeign: ForeignResponse?
        /// The calls that Kakao has answered since ``drainAnsweredCalls()``.
        var answered: Int64 = 0
    }

    private let calls = Locked(Calls())
    private let circuits = Locked<[KakaoCircuit: CircuitBreaker]>([:])
    /// Whether one of them is open. Each call reads it, on any loop, and hardly any changes it.
    private let hasOpenCircuit = Atomic<Bool>(false)
    /// Whether Kakao has accepted or rejected the Admin key since the server started.
    private let isKnown = Atomic<Bool>(false)
    private let observers = Locked<[@Sendable () -> Void]>([])
    private let quotaWaitEnd = Locked(MonotonicTime.now)
    private let lines: [KakaoCircuit: Lines]
    private let unavailable, availableAgain: RepeatedLine

    /// The log lines about a circuit, which may change with each call.
    private struct Lines {
        let rejected, intercepted, accepted: RepeatedLine

        init(_ logger: Logger) {
            rejected = RepeatedLine(logger, .critical)
            intercepted = RepeatedLine(logger, .warning)
            accepted = RepeatedLine(logger, .notice)
        }
    }

    package init(logger: Logger) {
        unavailable = RepeatedLine(logger, .warning)
        availableAgain = RepeatedLine(logger, .notice)
        lines = Dictionary(uniqueKeysWithValues: KakaoCircuit.allCases.map { ($0, Lines(logger)) })
    }

    /// The circuits of the senders.
    private static let senders: [KakaoCircuit] = [.pushes, .messages]

    /// The circuit of pushes or of messages that is open, a halted one first; `nil` if both are closed.
    package var openSender: CircuitBreaker? {
        let open = circuits.withLock { circuits in Self.senders.compactMap { circuits[$0] } }.filter { $0.cause != nil }
        return open.first(where: \.isHalted) ?? open.first
    }

    // MARK: Circuits

    /// Returns whether a call may be made now. Allows a call from time to time while ``isOpen(_:)``.
    package func admits(_ circuit: KakaoCircuit) -> Bool {
        guard hasOpenCircuit.load(ordering: .relaxed) else { return true }
        return circuits.withLock { $0[circuit]?.admit(at: EventLoop.milliseconds()) ?? true }
    }

    /// The time, by the clock of the loops in milliseconds, before which a call is not admitted because such calls are in
    /// vain; `nil` if they are not.
    package func nextCall(_ circuit: KakaoCircuit) -> UInt64? {
        guard hasOpenCircuit.load(ordering: .relaxed) else { return nil }
        return circuits.withLock { $0[circuit].flatMap { $0.cause == nil ? nil : $0.nextCall } }
    }

    /// Returns the time after which a call that is not admitted is tried again.
    package func delay(of circuit: KakaoCircuit) -> Duration {
        let now = EventLoop.milliseconds()
        return .milliseconds(Int(max(nextCall(circuit) ?? now, now + 1000) - now)) * RetryDelay.jitter()
    }

    /// Admits all calls again: the Admin key was replaced.
    package func closeCircuits() {
        circuits.withLock { circuits in
            circuits = [:]
            hasOpenCircuit.store(false, ordering: .relaxed)
        }
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

    /// The latest response that was not Kakao's; `nil` before the first.
    package var lastForeignResponse: ForeignResponse? { calls.withLock { $0.lastForeign } }

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
        return switch openCause {
        case nil: calls.withLock { $0.streak.isReported } ? .failing : .reachable
        case .refused: .refusing
        case .unrecognized: .intercepted
        }
    }

    /// Why calls of some kind are in vain; `nil` if none are.
    package var openCause: CircuitBreaker.Cause? {
        let causes = circuits.withLock { $0.values.compactMap(\.cause) }
        return causes.first { if case .refused = $0 { true } else { false } } ?? causes.first
    }

    /// Records a call that has ended, and whether Kakao accepts the Admin key. Callable from anywhere.
    ///
    /// - Parameter milliseconds: The clock of the loops.
    package func record(_ call: KakaoCallReport, at milliseconds: UInt64 = EventLoop.milliseconds()) {
        // Nearly all calls succeed, and say nothing new. A key may be allowed to make some calls only, so that one call says nothing
        // about another.
        if call.error != nil || hasOpenCircuit.load(ordering: .relaxed) || !hasAnswer, let circuit = KakaoCircuit(call)
        {
            record(call.error, in: circuit)
        }
        let now = Date()
        let outcome = KakaoOutcome(call.error)
        let isAnswered =
            switch call.error?.kind {
            case .unreachable: false
            case .refused, .unrecognized, nil: true
            }
        // A call that this server cancelled says nothing about Kakao.
        guard outcome != .givenUp else { return }
        let change = calls.withLock { calls in
            calls.last = LastCall(
                at: now,
                isAnswered: isAnswered,
                lastError: outcome == .ok ? calls.last?.lastError : outcome,
                lastErrorAt: outcome == .ok ? calls.last?.lastErrorAt : now
            )
            if case .unrecognized(let response) = call.error?.kind {
                calls.lastForeign = ForeignResponse(at: now, call: call.name, response: response)
            } else if isAnswered {
                calls.answered += 1
            }
            calls.recent.add(call.duration, hasFailed: outcome != .ok && outcome != .refused, at: milliseconds)
            return calls.streak.add(hasFailed: outcome.isOutage, at: milliseconds)
        }
        if let change { write(change, of: call) }
    }

    private func write(_ change: FailureStreak.Change, of call: KakaoCallReport) {
        switch change {
        case .began(let calls):
            let error = call.error.map(String.init(describing:)) ?? ""
            unavailable.write(
                "Kakao unavailable: all calls fail",
                ["failed": "\(calls)", "api": "\(call.name)", "kakao": "\(error)"]
            )
        case .ended(let calls): availableAgain.write("Kakao available again", ["failed": "\(calls)"])
        }
    }

    /// The state of the sender unless an operator has stopped it.
    package var senderState: SenderState {
        if let openSender { return openSender.isHalted ? .halted : .waiting }
        return quotaWaitEnd.withLock { $0 } > MonotonicTime.now ? .waiting : .running
    }

    /// Records that a quota is used up: the sender makes no calls for the duration of `wait`.
    package func recordQuotaExhaustion(for wait: Duration) {
        quotaWaitEnd.withLock { $0 = MonotonicTime.now + wait }
    }

    private func record(_ error: KakaoError?, in circuit: KakaoCircuit) {
        // That a user's token is rejected, or may not send messages, says nothing about the app.
        if circuit == .messages, error?.disposition == .halt { return }
        guard error != nil || hasOpenCircuit.load(ordering: .relaxed) else {
            if Self.senders.contains(circuit) { announce(false) }
            return
        }
        let now = EventLoop.milliseconds()
        let (before, after) = circuits.withLock { circuits in
            let before = circuits[circuit] ?? CircuitBreaker()
            var after = before
            after.record(error, at: now)
            circuits[circuit] = after
            hasOpenCircuit.store(circuits.values.contains { $0.cause != nil }, ordering: .relaxed)
            return (before, after)
        }
        switch (before.cause, after.cause) {
        case (let old, .refused(let reason)?) where old != after.cause:
            lines[circuit]?.rejected.write(
                "Kakao calls rejected: check the Admin key and the app",
                ["kakao": "\(reason)"]
            )
        case (nil, .unrecognized(let reason)?):
            lines[circuit]?.intercepted.write(
                "Something else responds in Kakao's place",
                ["circuit": "\(circuit)", "kakao": "\(reason)"]
            )
        case (_?, nil):
            lines[circuit]?.accepted.write("Kakao calls accepted again", ["circuit": "\(circuit)"])
        default: break
        }
        if Self.senders.contains(circuit), error == nil || after.isHalted || before.isHalted {
            announce(before.isHalted != after.isHalted || before.cause != after.cause)
        }
    }

    private func announce(_ isNew: Bool) {
        guard !isKnown.exchange(true, ordering: .relaxed) || isNew else { return }
        for observer in observers.withLock({ $0 }) { observer() }
    }
}
