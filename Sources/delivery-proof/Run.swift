/// One push, and the faults on its way.
struct Run: Sendable, CustomStringConvertible {
    enum Delivery: String, CaseIterable, Sendable {
        case atLeastOnce = "at_least_once"
        case atMostOnce = "at_most_once"
    }

    /// Tells runs apart: in markers, idempotency keys, and the names of log files.
    let number: Int
    /// Where the fault strikes; `nil` for a run without one.
    let point: Point?
    let fault: ProxyFault?
    let servers: Int
    let delivery: Delivery
    /// With the intervals of production.
    var isRealTime = false
    /// A server is killed first, so that its batches are taken over: see ``kill``.
    var isAfterKill = false

    /// The fault of ``isAfterKill``: in the middle of the push.
    static let kill = ArmedFault(point: Point(digest: "*", occurrence: 30), fault: .kill)

    /// The fault that the run is about.
    var armed: ArmedFault? { point.flatMap { point in fault.map { ArmedFault(point: point, fault: $0) } } }

    /// All of its faults.
    var allArmed: [ArmedFault] { (isAfterKill ? [Self.kill] : []) + (armed.map { [$0] } ?? []) }

    /// The lease, by which faults are measured.
    var lease: Duration { isRealTime ? .seconds(20) : .seconds(1) }

    /// The time in which the push must end. A lost lease costs two of them, whatever the fault.
    var limit: Duration { lease * (allArmed.reduce(6) { $0 + $1.fault.leases }) + .seconds(isRealTime ? 60 : 20) }

    /// How many leases may be lost to other servers, with the batches that are held under them.
    var losableLeases: Int { allArmed.count { $0.fault.mayLoseLease(servers: servers) } }

    /// The options that repeat it.
    var description: String {
        let fault = armed.map { "--point '\($0.point)' --fault \($0.fault)" } ?? "without a fault,"
        return "\(fault) --servers \(servers) --delivery \(delivery.rawValue)"
            + (isAfterKill ? " --after-kill" : "") + (isRealTime ? " --real-time" : "")
    }
}

/// The result of a run.
struct RunResult: Sendable {
    let run: Run
    /// The statement that the fault befell; `nil` when its point was not reached.
    let hit: StatementKey?
    let violations: [String]
    /// The executed statements, in order.
    let record: [(point: Point, key: StatementKey)]
    let duration: Duration
    /// Where the servers' logs were kept.
    var logs: [String] = []

    /// Whether the run was to have a fault and had none, because the statement was not executed so often.
    var missed: Bool { run.armed != nil && hit == nil }
}
