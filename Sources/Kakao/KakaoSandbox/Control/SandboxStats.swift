package import JSON

/// The sandbox's counts since its start. Clearing the deliveries resets `sends`, `users`, `deliveries` and `uncounted`.
package struct SandboxStats: Sendable {
    /// The number of requests to each of Kakao's paths whose head was received, whatever their result.
    package let requests: [String: Int]
    /// The number of sends that were accepted and executed.
    package let sends: Int
    /// The number of users in those sends. A user counts once for each occurrence.
    package let users: Int
    /// The number of deliveries by outcome.
    package let deliveries: [Delivery.Outcome: Int]
    /// The number of registered tokens. An expired token counts until its user registers again.
    package let tokens: Int
    /// The number of tokens that are set to fail.
    package let failingTokens: Int
    /// The number of reached users that were not counted because a limit was reached. While it is 0,
    /// ``ReachSummary`` is exact.
    package let uncounted: Int
    package let feedback: FeedbackCounts
    package let linkCallbacks: LinkCounts
    /// The seed of the faults' random generators.
    package let seed: UInt64
}

extension SandboxStats: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.object { json in
            json.object("requests") {
                for (path, count) in requests.sorted(by: { $0.key < $1.key }) { $0.member(path, count) }
            }
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

extension ReachSummary: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.object { writeMembers(to: &$0) }
    }

    func writeMembers(to json: inout JSONWriter.Members) {
        json.member("marker", marker)
        json.member("sends", sends)
        json.member("users", users)
        json.member("times", times)
        json.member("more_than_once", moreThanOnce)
    }
}
