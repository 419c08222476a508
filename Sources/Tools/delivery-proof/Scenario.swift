import KakaoSandbox

/// The push that every run sends, and Kakao's responses to it.
///
/// It has 20 batches of 100 users. One batch is split, one is retried, and one meets a rate limit.
enum Scenario {
    static let batches = 20
    static let users = batches * 100
    static let maximumConcurrentRequests = 4

    /// The user that Kakao rejects (-2). The batch is split until this user is alone.
    static let refusedUser: Int64 = 555
    /// A user of the batch to which Kakao responds once with 500.
    static let retriedUser: Int64 = 1055
    /// A user of the batch to which Kakao responds once with 429.
    static let limitedUser: Int64 = 1555

    /// Kakao's response time for a send, long enough for several sends to be in flight.
    private static let latencyMilliseconds = 5

    /// Prepares a sandbox for one run.
    ///
    /// - Parameter hasRateLimit: Whether the 429 is included. With the intervals of production it pauses the sender for
    ///   a minute.
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
