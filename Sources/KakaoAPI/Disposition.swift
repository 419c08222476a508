/// What a caller does about a call that Kakao did not answer with success (`docs/errors.md`).
package enum Disposition: Sendable, Hashable {
    /// Try again later, a bounded number of times: the fault is passing, and nobody's.
    case retry
    /// The whole sender waits before its next call: the quota is used up. No attempt is counted.
    case wait
    /// Nothing more is sent until an operator has seen to it: the key or the app is refused, whatever is sent. No
    /// attempt is counted.
    case halt
    /// Kakao says that the request is wrong: the message or one of its users is.
    case invalid
    /// Final for this request, and for this one only.
    case fail
}
