internal import KakaoSandbox

/// The push that every run sends, and what Kakao makes of it: 20 batches of 100 users, of which one is split, one retried, and one meets a
/// rate limit.
enum Scenario {
    static let batches = 20
    static let users = batches * 100
    static let maximumConcurrentRequests = 4

    /// The user rejected by Kakao (-2): the batch is split until this user is alone.
    static let refusedUser: Int64 = 555
    /// A user of the batch that Kakao answers once with 500.
    static let retriedUser: Int64 = 1055
    /// A user of the batch that Kakao answers once with 429.
    static let limitedUser: Int64 = 1555

    /// Kakao's time for a send: long enough for several to be in flight at once.
    private static let latencyMilliseconds = 5

    /// Prepares a sandbox for one run.
    ///
    /// - Parameter hasRateLimit: Whether the 429 is part of it: in production it pauses the sender for a minute.
    static func arm(_ sandbox: KakaoSandbox, hasRateLimit: Bool) {
        sandbox.removeFaults()
        var latency = Fault.latencyOfSends
        latency.milliseconds = latencyMilliseconds
        sandbox.add(latency)
        sandbox.add(.refusal(of: refusedUser, status: 400, code: -2, times: nil))
        sandbox.add(.refusal(of: retriedUser, status: 500, code: nil, times: 1))
        if hasRateLimit { sandbox.add(.refusal(of: limitedUser, status: 429, code: -10, times: 1)) }
    }
}

extension Fault {
    fileprivate static var latencyOfSends: Fault {
        var fault = Fault(.latency)
        fault.path = "/v1/push/send"
        return fault
    }

    fileprivate static func refusal(of user: Int64, status: Int, code: Int?, times: Int?) -> Fault {
        var fault = Fault(.status)
        fault.path = "/v1/push/send"
        fault.status = status
        fault.code = code
        fault.times = times
        fault.userIDs = [user]
        return fault
    }
}
