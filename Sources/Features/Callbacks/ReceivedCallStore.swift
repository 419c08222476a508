import ServiceKit

/// A store of calls from Kakao, which also carries out what follows from them. Live calls and calls of the journal use
/// the same statements.
struct ReceivedCallStore: Sendable {
    let callbacks: LinkCallbackStore
    let events: EventStore
    let observers: UserLifecycle.Observers

    /// Stores a call. Has no effect if the call is already stored. Returns whether it was new.
    ///
    /// - Throws: ``PostgresError``.
    func store(_ call: ReceivedCall) async throws -> Bool {
        switch call {
        case .linkCallback(let callback): try await callbacks.insert(callback)
        case .events(let events): try await self.events.insert(events, observers)
        case .tokenFailure(let failure): try await observers.record(failure)
        }
    }
}
