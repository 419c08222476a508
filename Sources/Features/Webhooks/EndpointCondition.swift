import Runtime

/// Whether an endpoint accepts webhooks, as a server that delivers to it knows it. Nothing here waits or sends.
///
/// The database has the condition for all servers: ``change(_:)`` and ``stored(_:nextProbe:)`` are the two directions. Times are
/// milliseconds of the loop's clock.
struct EndpointCondition {
    private enum State: Equatable {
        /// Webhooks are claimed. Can transition to ``failing`` and ``gone``.
        case delivering(failures: Int)
        /// One webhook at a time is claimed, by one server, to probe the endpoint. Can transition to ``delivering`` and ``gone``.
        case failing(nextProbe: UInt64)
        /// The endpoint has said that it is gone, or no server has it any more. Can transition to ``delivering``.
        case gone
    }

    /// What becomes of a webhook after an attempt.
    enum Verdict: Equatable {
        case delivered
        /// The attempt counts, and the webhook is due again later.
        case retried
        /// The endpoint is at fault, or this server: the webhook is due as before.
        case held
    }

    /// The failures in a row at which the endpoint, and not the webhooks, is at fault.
    static let failureLimit = 5

    private var state = State.delivering(failures: 0)
    /// What the database does not know yet.
    private(set) var unstored: EndpointChange?
    /// Whether a change is being stored.
    private var isStoring = false

    /// When a webhook may be claimed: from this time on; `nil` if none may before the state changes.
    var nextClaim: UInt64? {
        switch state {
        case .delivering: 0
        case .failing(let nextProbe): nextProbe
        case .gone: nil
        }
    }

    /// Whether any number of webhooks may be claimed and sent.
    var isDelivering: Bool {
        switch state {
        case .delivering: true
        case .failing, .gone: false
        }
    }

    /// Records the end of a request.
    ///
    /// - Parameter isProbe: Whether the webhook was claimed as a probe. Another one that began before the endpoint failed says no more than
    ///   the first that failed.
    mutating func ended(_ attempt: WebhookAttempt, isProbe: Bool) -> Verdict {
        switch attempt.outcome {
        case .delivered:
            if !isDelivering, state != .gone { change(EndpointChange(status: .delivering)) }
            if state != .gone { state = .delivering(failures: 0) }
            return .delivered
        case .abandoned: return .held
        case .gone:
            if state != .gone { change(EndpointChange(status: .gone, error: attempt.error)) }
            state = .gone
            return .held
        case .unavailable:
            fail(attempt, isProbe)
            return .held
        case .rejected, .unanswered:
            if case .delivering(let failures) = state, failures + 1 < Self.failureLimit {
                state = .delivering(failures: failures + 1)
                change(EndpointChange(error: attempt.error))
            } else {
                fail(attempt, isProbe)
            }
            return .retried
        }
    }

    private mutating func fail(_ attempt: WebhookAttempt, _ isProbe: Bool) {
        switch state {
        case .delivering: break
        case .failing: guard isProbe else { return }
        case .gone: return
        }
        // The database says when the next probe is.
        state = .failing(nextProbe: .max)
        change(EndpointChange(status: .failing, error: attempt.error, retryAfter: attempt.retryAfter))
    }

    private mutating func change(_ change: EndpointChange) {
        unstored = change.after(unstored)
    }

    // MARK: The database

    /// Returns what is to be stored now; `nil` if there is nothing.
    mutating func beginStoring() -> EndpointChange? {
        guard !isStoring, let change = unstored else { return nil }
        (unstored, isStoring) = (nil, true)
        return change
    }

    /// A change could not be stored. It is stored again, with what has changed since.
    mutating func failedToStore(_ change: EndpointChange) {
        unstored = unstored?.after(change) ?? change
        isStoring = false
    }

    /// A change is stored.
    mutating func endedStoring() {
        isStoring = false
    }

    /// Adopts the state of the database, unless this server knows of a later one.
    ///
    /// - Parameters:
    ///   - status: `nil` if the database does not have the endpoint.
    ///   - nextProbe: When a failing endpoint may be probed.
    mutating func stored(_ status: EndpointStatus?, nextProbe: UInt64) {
        guard unstored == nil, !isStoring else { return }
        switch status {
        case .delivering: if !isDelivering { state = .delivering(failures: 0) }
        case .failing: state = .failing(nextProbe: nextProbe)
        case .gone, .removed, nil: state = .gone
        }
    }

    /// Looks at the database as soon as possible, which may know better.
    mutating func ask() {
        if !isDelivering, unstored == nil, !isStoring { state = .failing(nextProbe: 0) }
    }
}

/// The state of an endpoint as it is stored and shown.
enum EndpointStatus: String, CaseIterable, Sendable {
    /// It accepts webhooks, as far as is known.
    case delivering
    /// It does not accept webhooks: one at a time is tried, with growing waits.
    case failing
    /// It has said that it is gone (410).
    case gone
    /// No server has it in its settings any more, and its webhooks are being dropped.
    case removed
}

/// A new state and a new error of an endpoint, as its responses show.
struct EndpointChange: Sendable, Equatable {
    /// The new state; `nil` if it is the same. `failing` after a failed probe too, after which the next wait is longer.
    var status: EndpointStatus?
    /// The last error; `nil` if there is no new one.
    var error: String?
    /// The time that the endpoint asks to wait.
    var retryAfter: Duration?

    /// Returns this change together with an earlier one.
    func after(_ earlier: EndpointChange?) -> EndpointChange {
        EndpointChange(
            status: status ?? earlier?.status,
            error: error ?? earlier?.error,
            retryAfter: status == nil ? earlier?.retryAfter : retryAfter
        )
    }
}
