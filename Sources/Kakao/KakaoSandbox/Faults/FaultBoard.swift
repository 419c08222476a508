import HTTPServer
import HTTPTypes
import Locking

/// The active faults, and the number of requests for each path.
///
/// Each fault has its own random generator, made from the seed and the fault's id. The same sequence of requests
/// therefore meets the same faults again, whatever other faults are active.
final class FaultBoard: Sendable {
    /// An active fault.
    struct Armed: Sendable {
        /// The id of the fault, counted from 1.
        let id: Int
        let fault: Fault
        /// The number of requests that it has affected.
        fileprivate(set) var applied = 0
        fileprivate var generator: SplitMix64

        /// Returns the refusals of the receivers that the fault affects: those of its users, or a share of all.
        fileprivate mutating func refusals(of receivers: [Int64]) -> [Int64: KakaoRefusal] {
            var affected = receivers
            if let userIDs = fault.userIDs {
                affected = receivers.filter(userIDs.contains)
            } else if fault.share < 1 {
                let count = Int((Double(receivers.count) * fault.share).rounded())
                let limit = max(1, receivers.count - 1)
                affected = Array(receivers.shuffled(using: &generator).prefix(min(max(1, count), limit)))
            }
            var refusal = fault.refusal
            refusal.status = 400
            return Dictionary(uniqueKeysWithValues: affected.map { ($0, refusal) })
        }

        fileprivate var isSpent: Bool { fault.times.map { applied >= $0 } ?? false }

        /// Returns whether the fault affects this request, and counts it.
        fileprivate mutating func strikes(_ path: String, users: [Int64], after event: Fault.Event? = nil) -> Bool {
            guard fault.path == "*" || fault.path == path, fault.when == event, !isSpent else { return false }
            if let userIDs = fault.userIDs, !users.contains(where: userIDs.contains) { return false }
            // Always drawn, so that the sequence does not depend on the probability.
            guard Double.random(in: 0..<1, using: &generator) < fault.probability else { return false }
            applied += 1
            return true
        }
    }

    /// The refusal or abort that replaces a response.
    enum Replacement {
        case refuse(KakaoRefusal)
        case drop

        func response(to request: Request) throws(ConnectionAbort) -> Response {
            switch self {
            case .refuse(let refusal): refusal.response(to: request[.authorization])
            case .drop: throw ConnectionAbort()
            }
        }
    }

    /// The decision about a request that has been read.
    struct Verdict {
        /// The delay of the response.
        var delay: Duration?
        var replacement: Replacement?
        /// Whether the request is executed even though ``replacement`` replaces its response.
        var isCarriedOut = false

        /// Adds the faults that strike after the request was executed. The delays add up.
        mutating func add(_ other: Verdict) {
            if let added = other.delay { delay = (delay ?? .zero) + added }
            replacement = replacement ?? other.replacement
        }
    }

    private struct State {
        var faults: [Armed] = []
        var lastID = 0
        var requests: [String: Int] = [:]
    }

    static let maximumFaults = 100
    /// The maximum latency of a fault, and of all faults together before a request is executed.
    static let maximumMilliseconds = 600_000
    private static let maximumPaths = 100

    let seed: UInt64
    private let state = Locked(State())

    init(seed: UInt64) {
        self.seed = seed
    }

    /// Counts a request whose head has been received, and applies the faults that do not need the body.
    private func arrive(at path: String) -> Replacement? {
        state.withLock { state in
            // The caller chooses the paths, so the number of counted paths is limited.
            let isKnown = state.requests[path] != nil || state.requests.count < Self.maximumPaths
            state.requests[isKnown ? path : "other", default: 0] += 1
            for index in state.faults.indices where state.faults[index].fault.isAtHead {
                guard state.faults[index].strikes(path, users: []) else { continue }
                let fault = state.faults[index].fault
                return fault.kind == .down && fault.status != nil ? .refuse(fault.refusal) : .drop
            }
            return nil
        }
    }

    /// Applies the faults of a request that has been read. Latencies add up; the first other fault that strikes ends
    /// the request.
    ///
    /// - Parameter event: The event of an executed request, for the faults that wait for it; `nil` for the other faults,
    ///   before the request is executed.
    func verdict(on path: String, users: [Int64], after event: Fault.Event? = nil) -> Verdict {
        state.withLock { state in
            var verdict = Verdict()
            var milliseconds = 0
            for index in state.faults.indices where !state.faults[index].fault.isAtHead {
                let fault = state.faults[index].fault
                guard fault.kind != .receivers, fault.kind == .latency || verdict.replacement == nil,
                    state.faults[index].strikes(path, users: users, after: event)
                else { continue }
                switch fault.kind {
                case .latency:
                    milliseconds = min(milliseconds + fault.milliseconds, Self.maximumMilliseconds)
                    verdict.delay = .milliseconds(milliseconds)
                case .status, .anotherHost:
                    verdict.replacement = .refuse(fault.refusal)
                    verdict.isCarriedOut = fault.isCarriedOut
                case .dropAfterBody:
                    verdict.replacement = .drop
                    verdict.isCarriedOut = fault.isCarriedOut
                case .down, .dropBeforeBody, .receivers: break
                }
            }
            return verdict
        }
    }

    /// Applies the faults of some receivers of a message, which are all different.
    ///
    /// - Returns: Kakao's errors by receiver, of the first fault that affects each.
    func failingReceivers(of path: String, among receivers: [Int64]) -> [Int64: KakaoRefusal] {
        state.withLock { state in
            var refusals: [Int64: KakaoRefusal] = [:]
            for index in state.faults.indices where state.faults[index].fault.kind == .receivers {
                guard state.faults[index].strikes(path, users: receivers) else { continue }
                refusals.merge(state.faults[index].refusals(of: receivers)) { first, _ in first }
            }
            return refusals
        }
    }

    /// Adds a fault. Returns its id, or `nil` if ``maximumFaults`` are active.
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

    /// Removes a fault. Returns whether it existed.
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

    /// The number of requests for each path, whatever their result.
    var requests: [String: Int] {
        state.withLock { $0.requests }
    }
}

extension FaultBoard: Middleware {
    /// Applies the faults that strike before a request's body is read. Paths under `/sandbox/` are never affected.
    func receive(_ request: Request) throws -> Response? {
        let path = request.path
        return path.hasPrefix("/sandbox/") ? nil : try arrive(at: path)?.response(to: request)
    }

    func send(_ response: inout Response, to request: Request) {}
}
