internal import Locking

/// The faults that are switched on, and how many requests have come for each path.
///
/// Each fault draws from a generator of its own, made of the seed and its number: the same requests meet the same faults again,
/// whatever else is switched on.
final class FaultBoard: Sendable {
    /// A fault that is switched on.
    struct Armed: Sendable {
        /// Counted from 1.
        let id: Int
        let fault: Fault
        /// How many requests it has befallen.
        fileprivate(set) var applied = 0
        fileprivate var generator: SplitMix64

        fileprivate var isSpent: Bool { fault.times.map { applied >= $0 } ?? false }

        /// Whether it befalls this request.
        fileprivate mutating func strikes(_ path: String, users: [Int64]) -> Bool {
            guard fault.path == "*" || fault.path == path, !isSpent else { return false }
            if let userIDs = fault.userIDs, !users.contains(where: userIDs.contains) { return false }
            // Always drawn, so that the sequence does not depend on the probability.
            guard Double.random(in: 0..<1, using: &generator) < fault.probability else { return false }
            applied += 1
            return true
        }
    }

    /// What happens to a request whose head has come.
    enum Arrival: Equatable {
        case pass
        case drop
        case refuse(KakaoRefusal)
    }

    /// What happens to a request that has been read.
    struct Verdict {
        enum End {
            case refuse(KakaoRefusal)
            case drop
        }

        /// How long the answer waits.
        var delay: Duration?
        /// Instead of the answer.
        var end: End?
        /// Whether what was asked for is done even so.
        var isCarriedOut = false
    }

    private struct State {
        var faults: [Armed] = []
        var lastID = 0
        var requests: [String: Int] = [:]
    }

    static let maximumFaults = 100
    /// Of the sum of all latencies that befall one request.
    static let maximumMilliseconds = 600_000
    private static let maximumPaths = 100

    let seed: UInt64
    private let state = Locked(State())

    init(seed: UInt64) {
        self.seed = seed
    }

    /// Counts a request whose head has come, and plays the faults that do not wait for a body.
    func arrive(at path: String) -> Arrival {
        state.withLock { state in
            // Paths are the caller's to choose: only so many are told apart.
            let isKnown = state.requests[path] != nil || state.requests.count < Self.maximumPaths
            state.requests[isKnown ? path : "other", default: 0] += 1
            for index in state.faults.indices where state.faults[index].fault.isAtHead {
                guard state.faults[index].strikes(path, users: []) else { continue }
                let fault = state.faults[index].fault
                return fault.kind == .down && fault.status != nil ? .refuse(fault.refusal) : .drop
            }
            return .pass
        }
    }

    /// Plays the faults of a request that has been read. Latencies add up; of the others the first to strike ends it.
    func verdict(on path: String, users: [Int64]) -> Verdict {
        state.withLock { state in
            var verdict = Verdict()
            var milliseconds = 0
            for index in state.faults.indices where !state.faults[index].fault.isAtHead {
                let fault = state.faults[index].fault
                guard fault.kind == .latency || verdict.end == nil,
                    state.faults[index].strikes(path, users: users)
                else { continue }
                switch fault.kind {
                case .latency:
                    milliseconds = min(milliseconds + fault.milliseconds, Self.maximumMilliseconds)
                    verdict.delay = .milliseconds(milliseconds)
                case .status:
                    verdict.end = .refuse(fault.refusal)
                    verdict.isCarriedOut = fault.isDelivered
                case .dropAfterBody:
                    verdict.end = .drop
                    verdict.isCarriedOut = fault.isDelivered
                case .down, .dropBeforeBody: break
                }
            }
            return verdict
        }
    }

    /// Switches a fault on. Returns its id, or `nil` when there are too many.
    func add(_ fault: Fault) -> Int? {
        state.withLock { state in
            if state.faults.count >= Self.maximumFaults { state.faults.removeAll { $0.isSpent } }
            guard state.faults.count < Self.maximumFaults else { return nil }
            state.lastID += 1
            let generator = SplitMix64(seed: seed &+ UInt64(state.lastID) &* 0xD6E8_FEB8_6659_FD93)
            state.faults.append(Armed(id: state.lastID, fault: fault, generator: generator))
            return state.lastID
        }
    }

    /// Switches a fault off. Returns whether there was one of that id.
    func remove(_ id: Int) -> Bool {
        state.withLock { state in
            let count = state.faults.count
            state.faults.removeAll { $0.id == id }
            return state.faults.count < count
        }
    }

    func removeAll() {
        state.withLock { $0.faults.removeAll() }
    }

    var faults: [Armed] {
        state.withLock { $0.faults }
    }

    /// How many requests have come for each path, whatever became of them.
    var requests: [String: Int] {
        state.withLock { $0.requests }
    }
}
