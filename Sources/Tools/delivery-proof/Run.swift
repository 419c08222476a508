import Runtime

/// One push, and the faults that strike while it is sent.
struct Run: Sendable, CustomStringConvertible {
    // The sandbox has a type of this name, too.
    typealias Delivery = Runtime.Delivery

    /// The number that identifies the run in markers, idempotency keys, and names of log files.
    var number = 0
    /// The point at which the fault strikes; `nil` for a run without a fault.
    let point: Point?
    let fault: ProxyFault?
    let servers: Int
    let delivery: Delivery
    /// Whether the servers use the intervals of production.
    var isRealTime = false
    /// Whether a server is killed first, so that its batches are reclaimed. See ``kill``.
    var isAfterKill = false

    /// The fault of ``isAfterKill``, which strikes in the middle of the push.
    static let kill = ArmedFault(point: Point(digest: "*", occurrence: 30), fault: .kill)

    /// The fault under test.
    var armed: ArmedFault? { point.flatMap { point in fault.map { ArmedFault(point: point, fault: $0) } } }

    /// All faults of the run.
    var allArmed: [ArmedFault] { (isAfterKill ? [Self.kill] : []) + (armed.map { [$0] } ?? []) }

    /// The sender's lease, which is the unit of the faults' durations.
    var lease: Duration { isRealTime ? .seconds(20) : .seconds(1) }

    /// The time limit of the push: six leases, the faults' durations and a margin. A lost lease costs two leases,
    /// whatever the fault.
    var limit: Duration { lease * (allArmed.reduce(6) { $0 + $1.fault.leases }) + .seconds(isRealTime ? 60 : 20) }

    /// The number of requests whose outcome a server cannot know, since the connection to Kakao was lost.
    var lostRequests: Int { fault?.isOfKakao == true ? 1 : 0 }

    /// The number of leases that may be lost to other servers, with the batches that are held under them.
    var losableLeases: Int { allArmed.count { $0.fault.mayLoseLease(servers: servers) } }

    /// The options that repeat the run.
    var description: String {
        let fault = armed.map { "--point '\($0.point)' --fault \($0.fault)" } ?? "without a fault,"
        return "\(fault) --servers \(servers) --delivery \(delivery.rawValue)"
            + (isAfterKill ? " --after-kill" : "") + (isRealTime ? " --real-time" : "")
    }
}

extension [Run] {
    /// Returns the runs with consecutive numbers.
    func numbered(from first: Int = 1) -> [Run] {
        enumerated().map { index, run in
            var run = run
            run.number = first + index
            return run
        }
    }
}

/// The result of a run.
struct RunResult: Sendable {
    let run: Run
    /// The statement, or the request to Kakao, at which the fault struck; `nil` if its point was not reached.
    let hit: String?
    let violations: [String]
    /// The executed statements, in order.
    let record: [(point: Point, key: StatementKey)]
    /// The number of sends to Kakao.
    let sends: Int
    let duration: Duration
    /// The files with the servers' logs.
    var logs: [String] = []

    /// Whether the fault did not strike, because the statement was not executed often enough.
    var missed: Bool { run.armed != nil && hit == nil }
}
