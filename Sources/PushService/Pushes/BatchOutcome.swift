internal import HTTPClient
internal import KakaoAPI

/// What becomes of a batch after one attempt to send it. The whole table stands in `docs/delivery.md`.
enum BatchOutcome: Sendable {
    /// Kakao took it.
    case sent
    /// It is tried again after a while. `mayRepeat`: Kakao may have had it, so that its users may be reached twice.
    case retry(after: Duration, mayRepeat: Bool, KakaoError)
    /// A quota is used up: the whole sender waits; no attempt is burnt.
    case wait(KakaoError)
    /// Kakao refuses the key or the API: the push is halted; no attempt is burnt.
    case halt(KakaoError)
    /// Kakao calls a batch of several users wrong: each half is tried.
    case split(KakaoError)
    /// Kakao refuses this batch, or it was tried often enough.
    case failed(KakaoError)
    /// It was sent, not answered, and is to be sent at most once.
    case uncertain(KakaoError)
    /// It was claimed, and given back before anything was sent.
    case notSent

    /// After so many attempts a batch has failed.
    static let maximumAttempts = 10
    /// The longest delay, in multiples of the first one.
    private static let longestDelay = 600

    /// Decides by what Kakao answered, or how it did not.
    ///
    /// - Parameters:
    ///   - attempts: How often the batch has been tried, this time included.
    ///   - users: How many users it has.
    ///   - firstDelay: The delay after the first attempt.
    ///   - jitter: From 0.8 to 1.2, so that batches that failed together are not tried together.
    init(_ error: KakaoError, attempts: Int, users: Int, delivery: Delivery, firstDelay: Duration, jitter: Double) {
        // It waited too long for a connection, and no byte of it has left.
        if case .unreachable(let cause) = error.kind, cause.code == .expired {
            self = .notSent
            return
        }
        switch error.disposition {
        case .retry:
            // A clear refusal means that nothing was sent; silence after the body had left may mean anything.
            let mayRepeat: Bool =
                switch error.kind {
                case .refused: false
                case .unreachable, .badAnswer: error.bodyBytesLeft
                }
            if mayRepeat && delivery == .atMostOnce {
                self = .uncertain(error)
            } else if attempts >= Self.maximumAttempts {
                self = .failed(error)
            } else {
                let delay = firstDelay * min(1 << max(0, min(attempts - 1, 20)), Self.longestDelay) * jitter
                let asked = min(error.retryAfter ?? .zero, .seconds(Self.longestDelay))
                self = .retry(after: max(delay, asked), mayRepeat: mayRepeat, error)
            }
        case .wait:
            self = .wait(error)
        case .halt:
            self = .halt(error)
        case .invalid:
            self = users > 1 ? .split(error) : .failed(error)
        case .fail:
            self = .failed(error)
        }
    }
}
