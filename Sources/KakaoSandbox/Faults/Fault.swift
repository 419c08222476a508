/// Something that goes wrong at Kakao because a test asked for it.
package struct Fault: Sendable, Equatable {
    /// What goes wrong.
    package enum Kind: String, Sendable, CaseIterable {
        /// An answer of ``Fault/status``, with Kakao's ``Fault/code`` or like a gateway's.
        case status
        /// The answer waits for ``Fault/milliseconds``; what was asked for is done at once.
        case latency
        /// The connection is closed when the request's head has come, before its body is read.
        case dropBeforeBody = "drop_before_body"
        /// The connection is closed when the request has been read, without an answer.
        case dropAfterBody = "drop_after_body"
        /// Kakao is down: every connection is closed with its first request; or answered with ``Fault/status``, if it is set.
        case down
    }

    /// The path that it befalls, or `*` for all of them. The sandbox's own are spared.
    package var path = "*"
    package var kind: Kind
    /// 200 to 599.
    package var status: Int?
    /// Kakao's code, for the body of the answer; `nil` for an answer without JSON, as from a gateway.
    package var code: Int?
    /// `msg` of the answer.
    package var message = "a fault of the sandbox"
    /// `Retry-After`.
    package var retryAfterSeconds: Int?
    /// Of ``Kind/latency``: 0 to 600,000.
    package var milliseconds = 0
    /// From 0 to 1, of each request that it could befall.
    package var probability = 1.0
    /// How often it befalls a request before it is spent; `nil` for ever.
    package var times: Int?
    /// Only calls that name one of these users; `nil` for all. Known when the body has been read.
    package var userIDs: Set<Int64>?
    /// Whether what was asked for is done all the same: the push is out and nobody says so.
    package var isDelivered = false

    package init(_ kind: Kind) {
        self.kind = kind
    }

    /// Whether it is played before the body is read.
    var isAtHead: Bool {
        switch kind {
        case .down, .dropBeforeBody: true
        case .status, .latency, .dropAfterBody: false
        }
    }

    /// The answer that it gives.
    var refusal: KakaoRefusal {
        KakaoRefusal(
            status: status ?? (kind == .down ? 503 : 500),
            code: code,
            message: message,
            retryAfterSeconds: retryAfterSeconds
        )
    }
}
