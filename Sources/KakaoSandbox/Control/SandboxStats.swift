package import JSON

/// What the sandbox has seen since it started, or since its deliveries were forgotten.
package struct SandboxStats: Sendable {
    /// Requests to Kakao's paths whose head came, whatever became of them.
    package let requests: [String: Int]
    /// Sends that were accepted and carried out.
    package let sends: Int
    /// Users that they named, as often as they were named.
    package let users: Int
    /// Deliveries by what became of them.
    package let deliveries: [Delivery.Outcome: Int]
    /// Tokens that are registered. One that has expired counts until its user registers again.
    package let tokens: Int
    /// Tokens that were told to fail.
    package let failingTokens: Int
    /// Users reached that were not counted for want of room: while it is 0, ``ReachSummary`` is exact.
    package let uncounted: Int
    package let feedback: FeedbackCounts
    package let linkCallbacks: LinkCounts
    /// The seed of the faults' choices.
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
            // A string, because many readers of JSON round what is beyond 2^53.
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
