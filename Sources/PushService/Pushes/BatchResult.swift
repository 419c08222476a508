internal import KakaoAPI

/// What is written about a batch after an attempt.
struct BatchResult: Sendable {
    let claim: BatchClaim
    /// `waiting` to be tried again; `sent`, `failed` or `uncertain` for good.
    let state: String
    /// When it may be tried again.
    var delay = Duration.zero
    /// Whether the attempt counts.
    var countsAttempt = true
    var mayRepeat = false
    var status: Int?
    var code: Int?
    var message: String?
}

extension BatchResult {
    /// What is written about a batch of which this has become.
    init(_ outcome: BatchOutcome, _ claim: BatchClaim) {
        switch outcome {
        case .sent:
            self.init(claim: claim, state: "sent")
            status = 200
        case .retry(let delay, let mayRepeat, let error):
            self.init(claim: claim, state: "waiting")
            self.delay = delay
            self.mayRepeat = mayRepeat
            note(error)
        case .wait(let error), .halt(let error):
            self.init(claim: claim, state: "waiting")
            countsAttempt = false
            note(error)
        case .split(let error):
            self.init(claim: claim, state: "waiting")
            note(error)
        case .failed(let error):
            self.init(claim: claim, state: "failed")
            mayRepeat = error.bodyBytesLeft && error.status == nil
            note(error)
        case .uncertain(let error):
            self.init(claim: claim, state: "uncertain")
            note(error)
        case .notSent:
            self.init(claim: claim, state: "waiting")
            countsAttempt = false
        }
    }

    private mutating func note(_ error: KakaoError) {
        status = error.status
        guard case .refused(_, let code, let text) = error.kind else {
            message = error.description
            return
        }
        self.code = code?.rawValue
        message = text
    }
}

extension KakaoError {
    /// The status that Kakao answered, if it did.
    fileprivate var status: Int? {
        guard case .refused(let status, _, _) = kind else { return nil }
        return status
    }
}
