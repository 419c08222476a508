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

    /// Writes down what became of a batch.
    func write(_ outcome: BatchOutcome, _ claim: BatchClaim, unless isGivingUp: () async -> Bool) async {
        await persist("push \(claim.pushID.lowercased), batch \(claim.number)", unless: isGivingUp) {
            try await storeOnce(outcome, claim)
        }
    }

    /// Writes down that batches were sent at their first attempt.
    func write(sent settlements: [BatchStore.Settlement], unless isGivingUp: () async -> Bool) async {
        await persist("\(settlements.count) batches that were sent", unless: isGivingUp) {
            try await store.settle(settlements)
        }
    }

    /// While the database does not answer it is tried again: the lease bounds for how long.
    private func persist(
        _ what: @autoclosure () -> String,
        unless isGivingUp: () async -> Bool,
        _ write: () async throws -> Void
    ) async {
        for _ in 0..<Self.tries {
            do {
                return try await write()
            } catch {
                logger.warning(
                    "What became of a batch could not be stored",
                    metadata: ["what": "\(what())", "error": "\(error)"]
                )
            }
            // The server has no time left: then the lease ends by itself.
            guard await !isGivingUp(), (try? await loop.sleep(for: .seconds(1))) != nil else { return }
        }
    }

    private func storeOnce(_ outcome: BatchOutcome, _ claim: BatchClaim) async throws {
        // Before anything else: until then more of it is claimed.
        if case .halt(let error) = outcome { try await store.halt(claim.pushID, reason: error.description) }
        if let shared = claim.shared { try await store.giveRow(claim, shared) }
        let result = BatchResult(outcome, claim)
        switch outcome {
        case .split:
            try await store.split(result)
        case .failed(let error) where error.disposition == .invalid:
            let reason = "Kakao refuses the message for everybody in the first batch that it refused. \(error)"
            if try await store.finishRefused(result, reason: reason) { notices.pushChanged() }
        case .sent:
            try await store.finish(result)
            if claim.origin != nil { try await store.endProbe(claim.pushID) }
        case .failed, .retry, .wait, .halt, .uncertain, .notSent:
            try await store.finish(result)
        }
    }
}
