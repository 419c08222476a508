import Endpoints
import HTTPClient
import KakaoAPI
import Runtime

/// What became of a claimed receiver: the values of its columns. `docs/messages.md` has the whole table.
struct ReceiverResult: Sendable, Equatable {
    let state: ReceiverState
    /// The time until the receiver is due again; `nil` for the start of the next day. Only of `pending` and `waiting`.
    var secondsUntilDue: Double?
    /// Whether a request was made.
    var countsAttempt = true
    /// Whether Kakao counts the message, or may count it.
    var isCounted = false
    /// Whether the receiver is sent in a request of its own from now on.
    var isAlone = false
    /// Whether the receiver may have been reached, and is sent again.
    var mayRepeat = false
    var refusal: Refusal?

    var code: Int? { refusal?.code }
    var reason: Reason? { refusal?.reason }
    var kakaoMessage: String? { refusal?.kakaoMessage }
    var scopes: [String] { refusal?.scopes ?? [] }

    /// The attempts after which a receiver has failed.
    static let maximumAttempts: Int32 = 10
    /// The time in which Kakao learns of a new friendship.
    static let friendshipDelay = Duration.seconds(120)
    private static let longestRetry = Duration.seconds(600)

    static let sent = ReceiverResult(state: .sent, isCounted: true)
    /// The receiver was claimed, and no request was made.
    static let notSent = ReceiverResult(state: .pending, secondsUntilDue: 0, countsAttempt: false)
}

extension ReceiverResult {
    /// The result of a receiver in whose request something else responded in Kakao's place. The attempt does not count.
    private static func unrecognized(mayRepeat: Bool, of claim: ReceiverClaim, jitter: Double) -> ReceiverResult {
        // A firewall may reject this message alone, and let the others through.
        let delay = RetryDelay(first: .seconds(1), longest: .seconds(60)).after(Int(claim.claims), jitter: jitter)
        return ReceiverResult(
            state: .waiting,
            secondsUntilDue: delay.inSeconds,
            countsAttempt: false,
            isCounted: mayRepeat,
            mayRepeat: mayRepeat,
            refusal: Refusal(reason: .unavailable)
        )
    }

    /// The result of a receiver whom the response does not mention: it may have been reached.
    static func unknown(
        _ reason: Reason,
        of claim: ReceiverClaim,
        _ message: SendingMessage,
        jitter: Double = RetryDelay.jitter()
    ) -> ReceiverResult {
        switch message.delivery {
        case .atMostOnce:
            ReceiverResult(state: .uncertain, isCounted: true, refusal: Refusal(reason: reason))
        case .atLeastOnce where claim.attempts >= maximumAttempts:
            ReceiverResult(state: .uncertain, isCounted: true, refusal: Refusal(reason: reason))
        case .atLeastOnce:
            retry(Refusal(reason: reason), of: claim, after: nil, mayRepeat: true, jitter: jitter)
        }
    }

    /// Creates the result of a receiver that was not reached.
    ///
    /// - Parameter batch: The number of receivers that the refusal is about. One of several receivers that Kakao rejects
    ///   together is sent again on its own, to learn what is true of each.
    init(_ refusal: Refusal, of claim: ReceiverClaim, _ message: SendingMessage, batch: Int) {
        if batch > 1, refusal.reason.mayConcernOneReceiver {
            // Nothing is known of this receiver yet, so that no refusal is stored.
            self.init(state: .pending, secondsUntilDue: 0, isAlone: true)
            return
        }
        switch refusal.reason {
        case .notAFriend where claim.lastCode != KakaoErrorCode.notFriend.rawValue.clamped:
            self.init(state: .waiting, secondsUntilDue: Self.friendshipDelay.inSeconds, refusal: refusal)
        case .appQuota, .senderQuota, .receiverQuota, .pairQuota:
            self.init(state: message.whenOverQuota == .wait ? .waiting : .failed, refusal: refusal)
        default:
            self.init(state: .failed, refusal: refusal)
        }
    }

    /// The result of an attempt that failed for a temporary reason.
    static func retry(
        _ refusal: Refusal,
        of claim: ReceiverClaim,
        after delay: Duration?,
        mayRepeat: Bool,
        jitter: Double = RetryDelay.jitter()
    ) -> ReceiverResult {
        guard claim.attempts < maximumAttempts else {
            return ReceiverResult(state: .failed, refusal: refusal)
        }
        let pause = RetryDelay(first: .seconds(1), longest: longestRetry)
            .after(Int(claim.attempts), atLeast: min(delay ?? .zero, longestRetry), jitter: jitter)
        return ReceiverResult(
            state: .waiting,
            secondsUntilDue: pause.inSeconds,
            isCounted: mayRepeat,
            mayRepeat: mayRepeat,
            refusal: refusal
        )
    }

    /// Creates the result of a request that failed as a whole.
    ///
    /// - Parameters:
    ///   - batch: The number of receivers of the request.
    ///   - jitter: From 0.8 to 1.2. The same for all receivers of a request, so that they are tried again together.
    init(
        _ error: KakaoError,
        of claim: ReceiverClaim,
        _ message: SendingMessage,
        batch: Int,
        jitter: Double = RetryDelay.jitter()
    ) {
        switch error.kind {
        case .unreachable(let cause) where cause.code == .expired:
            // The request waited too long for a connection.
            self = .notSent
        case .unrecognized where !error.hasUnknownOutcome:
            self = .unrecognized(mayRepeat: false, of: claim, jitter: jitter)
        case .unrecognized where message.delivery == .atLeastOnce:
            self = .unrecognized(mayRepeat: true, of: claim, jitter: jitter)
        case _ where error.hasUnknownOutcome:
            self = .unknown(.noResponse, of: claim, message, jitter: jitter)
        case .unreachable, .unrecognized:
            self = .retry(Refusal(reason: .unavailable), of: claim, after: nil, mayRepeat: false, jitter: jitter)
        case .refused(let status, let code, let text):
            let isMemo = message.addressing == .me
            let refusal = Refusal(code: code, message: text, scopes: error.requiredScopes, isMemo: isMemo)
            // Status 429 is a quota of calls a minute. Error -10 with status 400 is the quota of messages a day.
            if error.disposition == .retry || status == 429 {
                let refusal = Refusal(reason: .unavailable, code: code?.rawValue, kakaoMessage: refusal.kakaoMessage)
                let delay = status == 429 ? error.callQuotaDelay : error.retryAfter
                self = .retry(refusal, of: claim, after: delay, mayRepeat: false, jitter: jitter)
            } else {
                self.init(refusal, of: claim, message, batch: batch)
            }
        }
    }
}

extension KakaoError {
    /// The time after which Kakao can be called again if a quota of calls is used up, which Kakao counts by the minute.
    var callQuotaDelay: Duration { max(.seconds(60), retryAfter ?? .zero) }
}

extension Reason {
    /// Whether one of several receivers may be the cause, so that the others can be reached.
    fileprivate var mayConcernOneReceiver: Bool {
        switch self {
        case .notInFriendsList, .notAFriend, .notLinked, .noTalkUser, .unsupportedDevice, .refusesMessages,
            .receiverQuota, .pairQuota, .invalidMessage, .rejected:
            true
        default: false
        }
    }
}

extension Int {
    fileprivate var clamped: Int32 { Int32(clamping: self) }
}
