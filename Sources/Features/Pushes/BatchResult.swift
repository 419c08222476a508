import HTTPClient
import KakaoAPI
import Runtime

/// The result of an attempt to send a batch. `docs/delivery.md` has the whole table.
enum BatchResult: Sendable {
    /// Kakao has accepted it.
    case sent
    /// The batch is retried after a delay. `mayRepeat`: Kakao may have received it, so that its users may be reached
    /// twice.
    case retry(after: Duration, mayRepeat: Bool, KakaoError)
    /// Kakao's quota is exhausted: the sender pauses, and the attempt does not count.
    case wait(KakaoError)
    /// Something else responded in Kakao's place: the batch is retried after a delay, and the attempt does not count.
    /// `mayRepeat`: Kakao may have received it.
    case unrecognized(after: Duration, mayRepeat: Bool, KakaoError)
    /// Kakao rejects the Admin key or the app: the push is halted, and the attempt does not count.
    case halt(KakaoError)
    /// Kakao rejects a batch of several users: its halves are sent on their own.
    case split(KakaoError)
    /// Kakao rejects the batch, or it has used up its attempts.
    case failed(KakaoError)
    /// The batch was sent, no response came, and its push is sent at most once.
    case uncertain(KakaoError)
    /// The batch was claimed and not sent.
    case notSent

    /// The attempts after which a batch has failed.
    static let maximumAttempts = 10
    /// The longest delay, in multiples of the first one, and the longest `Retry-After` that is respected, in seconds.
    private static let longestDelay = 600
    /// The longest delay after something else responded, in multiples of the first one.
    private static let longestDelayOfUnrecognized = 60

    /// Creates the result of an attempt from Kakao's error response, or from the reason why there is no response.
    ///
    /// - Parameters:
    ///   - attempts: The number of attempts to send the batch, including this one.
    ///   - claims: The number of times that it was claimed, which counts attempts that do not count.
    ///   - users: The number of users of the batch.
    ///   - firstDelay: The delay after the first attempt.
    ///   - jitter: From 0.8 to 1.2, so that batches that failed together are not retried together.
    init(
        _ error: KakaoError,
        attempts: Int,
        claims: Int,
        users: Int,
        delivery: Delivery,
        firstDelay: Duration,
        jitter: Double
    ) {
        // The request waited too long for a connection, and no byte of it was sent.
        if case .unreachable(let cause) = error.kind, cause.code == .expired {
            self = .notSent
            return
        }
        switch error.disposition {
        case .retry:
            // A rejection means that Kakao sent nothing. Without a response, Kakao may have received a request whose
            // body was sent.
            let mayRepeat = error.hasUnknownOutcome
            if mayRepeat && delivery == .atMostOnce {
                self = .uncertain(error)
            } else if attempts >= Self.maximumAttempts {
                self = .failed(error)
            } else {
                let delay = RetryDelay(first: firstDelay, longest: firstDelay * Self.longestDelay)
                    .after(attempts, jitter: jitter)
                let asked = min(error.retryAfter ?? .zero, .seconds(Self.longestDelay))
                self = .retry(after: max(delay, asked), mayRepeat: mayRepeat, error)
            }
        case .unrecognized:
            let mayRepeat = error.hasUnknownOutcome
            if mayRepeat && delivery == .atMostOnce {
                self = .uncertain(error)
            } else {
                // A firewall may reject this batch alone, and let the others through.
                let delay = RetryDelay(first: firstDelay, longest: firstDelay * Self.longestDelayOfUnrecognized)
                    .after(claims, jitter: jitter)
                self = .unrecognized(after: delay, mayRepeat: mayRepeat, error)
            }
        case .wait:
            self = .wait(error)
        case .halt:
            self = .halt(error)
        case .invalid:
            self = users > 1 ? .split(error) : .failed(error)
        case .fail, .logIn, .consent:
            self = .failed(error)
        }
    }
}

// The values of the batch's columns.
extension BatchResult {
    var state: BatchState {
        switch self {
        case .sent: .sent
        case .retry, .unrecognized, .wait, .halt, .split, .notSent: .waiting
        case .failed: .failed
        case .uncertain: .uncertain
        }
    }

    /// The time until the next attempt.
    var delay: Duration {
        switch self {
        case .retry(let delay, _, _), .unrecognized(let delay, _, _): delay
        default: .zero
        }
    }

    var countsAttempt: Bool {
        switch self {
        case .sent, .retry, .split, .failed, .uncertain: true
        case .unrecognized, .wait, .halt, .notSent: false
        }
    }

    /// Whether this attempt may have reached users although its result is `waiting` or `failed`, so that another may repeat it.
    var mayRepeat: Bool {
        switch self {
        case .retry(_, let mayRepeat, _), .unrecognized(_, let mayRepeat, _): mayRepeat
        case .failed(let error): error.hasUnknownOutcome
        case .sent, .wait, .halt, .split, .uncertain, .notSent: false
        }
    }

    /// The HTTP status of the response.
    var status: Int? {
        if case .sent = self { 200 } else { error?.status }
    }

    /// Kakao's error code.
    var code: Int? {
        error?.code?.rawValue
    }

    /// Kakao's error message, or a description of a missing or invalid response.
    var message: String? {
        if case .refused(_, _, let message) = error?.kind { message } else { error?.description }
    }

    private var error: KakaoError? {
        switch self {
        case .sent, .notSent: nil
        case .retry(_, _, let error), .unrecognized(_, _, let error), .wait(let error), .halt(let error),
            .split(let error),
            .failed(let error), .uncertain(let error):
            error
        }
    }
}

extension KakaoError {
    /// The HTTP status of the response, if there was one.
    fileprivate var status: Int? {
        switch kind {
        case .refused(let status, _, _): status
        case .unrecognized(let response): response.status
        case .unreachable: nil
        }
    }
}
