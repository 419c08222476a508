internal import EventLoop
internal import Logging

/// A store of calls from Kakao, which also applies their effects. Live calls and calls of the journal use the same
/// statements.
struct ReceivedCallStore: Sendable {
    let callbacks: LinkCallbackStore
    let events: EventStore
    let devices: DeviceStore
    let pruneAfterFailures: Int
    /// Wakes the worker that reports withdrawn devices to Kakao.
    let registrationSignal: Signal
    let logger: Logger

    /// Stores a call. Has no effect if the call is already stored.
    ///
    /// - Throws: ``PostgresError``.
    func store(_ call: ReceivedCall) async throws {
        switch call {
        case .linkCallback(let callback): try await callbacks.insert(callback)
        case .events(let events): try await store(events)
        case .tokenFailure(let failure): try await store(failure)
        }
    }

    private func store(_ events: [KakaoEvent]) async throws {
        let withdrawn = try await self.events.insert(events)
        guard withdrawn > 0 else { return }
        logger.info(
            "Devices withdrawn: the user has left the app",
            metadata: [
                "type": "\(events.map(\.type).joined(separator: " "))",
                "user_id": "\(events.compactMap(\.userID).map { String($0) }.joined(separator: " "))",
                "devices": "\(withdrawn)",
            ]
        )
        registrationSignal.send()
    }

    private func store(_ failure: TokenFailure) async throws {
        guard try await devices.recordFailure(failure, pruneAfter: pruneAfterFailures) else { return }
        logger.info("Device withdrawn: its token keeps failing", metadata: ["user_id": "\(failure.userID)"])
        registrationSignal.send()
    }
}
