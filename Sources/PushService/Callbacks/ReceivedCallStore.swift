internal import EventLoop
internal import Logging

/// Stores calls from Kakao with all that follows from them: the same statements for live calls and for those of the journal.
struct ReceivedCallStore: Sendable {
    let callbacks: LinkCallbackStore
    let events: EventStore
    let devices: DeviceStore
    let pruneAfterFailures: Int
    /// Has Kakao's Push API be called for devices that are withdrawn.
    let registrationSignal: Signal
    let logger: Logger

    /// Stores a call. Has no effect for one that was stored before.
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
            "A user has left the app; the devices are withdrawn",
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
        logger.info("A token keeps failing; its device is withdrawn", metadata: ["user_id": "\(failure.userID)"])
        registrationSignal.send()
    }
}
