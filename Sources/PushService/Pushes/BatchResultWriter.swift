internal import EventLoop
internal import KakaoAPI
internal import Logging

/// Writes down what became of batches, whatever it takes.
struct BatchResultWriter: Sendable {
    /// How often it is tried to store a result, once a second: until another server has taken over anyway.
    private static let tries = 30

    let loop: EventLoop
    let store: BatchStore
    let notices: PushNotices
    let logger: Logger

    /// Writes down what became of a batch. While the database does not answer it is tried again: the lease bounds for how long.
    func write(_ outcome: BatchOutcome, _ claim: BatchClaim, unless isGivingUp: () async -> Bool) async {
        for _ in 0..<Self.tries {
            do {
                try await storeOnce(outcome, claim)
                return
            } catch {
                logger.warning(
                    "What became of a batch could not be stored",
                    metadata: ["push": "\(claim.pushID.lowercased)", "batch": "\(claim.number)", "error": "\(error)"]
                )
            }
            // The server has no time left: then the lease ends by itself.
            guard await !isGivingUp(), (try? await loop.sleep(for: .seconds(1))) != nil else { return }
        }
    }

    private func storeOnce(_ outcome: BatchOutcome, _ claim: BatchClaim) async throws {
        let result = BatchResult(outcome, claim)
        switch outcome {
        case .split:
            try await store.split(result)
        case .halt(let error):
            try await store.halt(claim.pushID, reason: error.description)
            try await store.finish(result)
        case .failed(let error) where error.disposition == .invalid:
            let reason = "Kakao refuses the message for everybody in the first batch that it refused. \(error)"
            if try await store.finishRefused(result, reason: reason) { notices.pushChanged() }
        case .sent:
            try await store.finish(result)
            if claim.origin != nil { try await store.endProbe(claim.pushID) }
        case .failed, .retry, .wait, .uncertain, .notSent:
            try await store.finish(result)
        }
    }
}
