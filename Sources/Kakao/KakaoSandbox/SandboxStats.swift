import HTTPServer
import JSON

/// The sandbox's counts since its start. Clearing the deliveries resets `sends`, `users`, `deliveries` and `uncounted`.
package struct SandboxStats: Sendable {
    /// The number of requests to each of Kakao's paths whose head was received, whatever their result.
    package let requests: [String: Int]
    /// The number of sends that were accepted and executed.
    package internal(set) var sends = 0
    /// The number of users in those sends. A user counts once for each occurrence.
    package internal(set) var users = 0
    /// The number of deliveries by outcome.
    package internal(set) var deliveries: [Delivery.Outcome: Int] = [:]
    /// The number of registered tokens. An expired token counts until its user registers again.
    package internal(set) var tokens = 0
    /// The number of tokens that are set to fail.
    package internal(set) var failingTokens = 0
    /// The number of reached users that were not counted because a limit was reached. While it is 0,
    /// ``ReachSummary`` is exact.
    package internal(set) var uncounted = 0
    package let feedback: FeedbackCounts
    package let linkCallbacks: LinkCounts
    /// The seed of the faults' random generators.
    package let seed: UInt64

    init(_ ledger: Ledger, _ faults: FaultBoard, _ link: LinkCallback, _ feedback: FailureFeedback) {
        requests = faults.requests
        self.feedback = feedback.counts
        linkCallbacks = link.counts
        seed = faults.seed
        ledger.addCounts(to: &self)
    }

    /// The response to `GET /sandbox/stats`.
    var response: Response {
        .json { json in
            json.counts("requests", requests)
            json.member("sends", sends)
            json.member("users", users)
            json.object("deliveries") {
                for outcome in Delivery.Outcome.allCases { $0.member(outcome.rawValue, deliveries[outcome] ?? 0) }
            }
            json.member("tokens", tokens)
            json.member("failing_tokens", failingTokens)
            json.member("uncounted", uncounted)
            json.object("feedback") {
                $0.member("pending", feedback.pending)
                $0.member("accepted", feedback.accepted)
                $0.member("refused", feedback.refused)
                $0.member("dropped", feedback.dropped)
            }
            json.object("link_callbacks") {
                $0.member("sent", linkCallbacks.sent)
                $0.member("accepted", linkCallbacks.accepted)
            }
            // A string, because many JSON parsers round integers beyond 2^53.
            json.member("seed", String(seed))
        }
    }
}
