internal import HTTPServer

/// Plays the faults that strike before a request's body is read. The sandbox's own paths are let through.
final class FaultGate: Middleware {
    private let faults: FaultBoard

    init(faults: FaultBoard) {
        self.faults = faults
    }

    func receive(_ request: Request) throws -> Response? {
        let path = request.path
        guard !path.hasPrefix("/sandbox/") else { return nil }
        switch faults.arrive(at: path) {
        case .pass: return nil
        case .drop: throw ConnectionAbort()
        case .refuse(let refusal): return refusal.response
        }
    }

    func send(_ response: inout Response, to request: Request) {}
}
