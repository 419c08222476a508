import EventLoop
import Runtime

/// Whether the endpoint accepts webhooks, as the server that delivers knows it. Nothing here waits or sends.
///
/// Times are milliseconds of the loop's clock.
struct EndpointCondition {
    /// What becomes of a webhook after an attempt.
    enum Verdict: Equatable {
        case delivered
        /// It is stored to be retried, and the next one is sent.
        case setAside
        /// It stays the first of its source.
        case hold
    }

    /// When a request may begin.
    enum Admission: Equatable {
        case now
        /// Not before this time.
        case at(UInt64)
        /// Not before the requests in flight have ended, or the endpoint is back.
        case later
    }

    private enum State: Equatable {
        /// Any number of requests may be in flight. Can transition to ``failing`` and ``gone``.
        case delivering(failures: Int)
        /// One request at a time probes the endpoint. Can transition to ``delivering`` and ``gone``.
        case failing(probes: Int, nextProbe: UInt64)
        /// The endpoint has said that it is gone. Can transition to ``delivering``, by ``restore()``.
        case gone
    }

    /// The failures in a row at which the endpoint, and not the webhooks, is at fault.
    static let failureLimit = 5
    /// The failed attempts after which a webhook is set aside although the endpoint is failing, so that one that it cannot
    /// process does not block the others.
    static let attemptLimit = 3
    /// The longest wait that the endpoint can ask for.
    private static let longestRetryAfter = Duration.seconds(3600)

    private let delay: RetryDelay
    private var state = State.delivering(failures: 0)
    private var inFlight = 0

    /// - Parameter status: The state that was stored.
    init(_ status: EndpointStatus, firstProbe: Duration, longestProbe: Duration, at now: UInt64) {
        delay = RetryDelay(first: firstProbe, longest: longestProbe)
        switch status {
        case .delivering, .off: break
        case .failing: state = .failing(probes: 0, nextProbe: now)
        case .gone: state = .gone
        }
    }

    /// The state as it is stored and shown.
    var status: EndpointStatus {
        switch state {
        case .delivering: .delivering
        case .failing: .failing
        case .gone: .gone
        }
    }

    /// Returns when a request may begin. If that is now, it counts as in flight until ``ended(_:attempts:at:jitter:)`` or ``withdraw()``.
    mutating func admit(at now: UInt64) -> Admission {
        switch state {
        case .delivering: break
        case .failing(_, let nextProbe):
            guard inFlight == 0 else { return .later }
            guard now >= nextProbe else { return .at(nextProbe) }
        case .gone: return .later
        }
        inFlight += 1
        return .now
    }

    /// Records that a request that was admitted is not made.
    mutating func withdraw() {
        inFlight -= 1
    }

    /// Records the end of a request.
    ///
    /// - Parameters:
    ///   - attempts: The number of attempts at the same webhook, including this one.
    ///   - jitter: From 0.8 to 1.2.
    mutating func ended(
        _ attempt: WebhookAttempt,
        attempts: Int,
        at now: UInt64,
        jitter: Double = RetryDelay.jitter()
    ) -> Verdict {
        inFlight -= 1
        switch attempt.outcome {
        case .delivered:
            if state != .gone { state = .delivering(failures: 0) }
            return .delivered
        case .abandoned: return .hold
        case .gone:
            state = .gone
            return .hold
        case .unavailable:
            fail(at: now, atLeast: min(attempt.retryAfter ?? .zero, Self.longestRetryAfter), jitter)
            return .hold
        case .rejected, .unanswered:
            if case .delivering(let failures) = state, failures + 1 < Self.failureLimit {
                state = .delivering(failures: failures + 1)
                return .setAside
            }
            fail(at: now, atLeast: .zero, jitter)
            return attempts >= Self.attemptLimit ? .setAside : .hold
        }
    }

    /// Lets webhooks be delivered again, because an operator's test has succeeded.
    mutating func restore() {
        state = .delivering(failures: 0)
    }

    private mutating func fail(at now: UInt64, atLeast minimum: Duration, _ jitter: Double) {
        var probes = 0
        switch state {
        case .delivering: break
        case .failing(let earlier, let nextProbe):
            // A request that began before the first failure is no probe.
            guard now >= nextProbe else { return }
            probes = earlier
        case .gone: return
        }
        let wait = max(delay.after(probes + 1, jitter: jitter), minimum)
        state = .failing(probes: probes + 1, nextProbe: now + wait.wholeMilliseconds)
    }
}

/// The state of the endpoint as it is stored and shown.
enum EndpointStatus: String, CaseIterable, Sendable {
    /// It accepts webhooks, as far as is known.
    case delivering
    /// It does not accept webhooks: one at a time is tried, with growing waits.
    case failing
    /// It has said that it is gone (410).
    case gone
    /// There is none.
    case off
}

/// A new state and a new error of the endpoint, as its responses show.
struct EndpointChange {
    /// The new state; `nil` if it is the same. An operator's test may have changed the stored one meanwhile.
    var status: EndpointStatus?
    /// The last error; `nil` if there is no new one.
    var error: String?

    /// Returns this change together with an earlier one.
    func after(_ earlier: EndpointChange?) -> EndpointChange {
        EndpointChange(status: status ?? earlier?.status, error: error ?? earlier?.error)
    }
}
