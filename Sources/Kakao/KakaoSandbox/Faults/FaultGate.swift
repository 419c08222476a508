import HTTPServer

/// Applies the faults that strike before a request's body is read. Paths under `/sandbox/` are never affected.
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
