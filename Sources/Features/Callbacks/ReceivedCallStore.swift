import EventLoop
import Journal
import Logging
import Postgres
import ServiceKit

/// A store of calls from Kakao, which also carries out what follows from them. Live calls and calls of the journal use
/// the same statements.
struct ReceivedCallStore: Sendable {
    let callbacks: LinkCallbackStore
    let events: EventStore
    let observers: UserLifecycle.Observers
    /// The files of the calls that were stored in the last minutes; `nil` if none are kept.
    let recent: RecentRecords?

    /// Stores a call. Has no effect if the call is already stored. Returns whether it was new.
    ///
    /// - Throws: ``PostgresError``.
    func store(_ call: ReceivedCall) async throws -> Bool {
        let isNew =
            switch call {
            case .linkCallback(let callback): try await callbacks.insert(callback)
            case .events(let events): try await self.events.insert(events, observers)
            case .tokenFailure(let failure): try await observers.record(failure)
            }
        if isNew { keep(call) }
        return isNew
    }

    /// Stores a link callback as ``store(_:)`` does, for at most `limit`. Continues even if the client disconnects.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/timedOut`` after `limit`.
    func store(_ callback: LinkCallback, within limit: Duration) async throws -> Bool {
        let isNew = try await callbacks.insert(callback, within: limit)
        if isNew { keep(.linkCallback(callback)) }
        return isNew
    }

    /// Keeps a call for the case that PostgreSQL loses it.
    private func keep(_ call: ReceivedCall) {
        recent?.append(JournalRecord(time: call.receivedAt, payload: call.record))
    }

    /// The outcome of storing a call of a file.
    enum Outcome: Sendable {
        case new
        case known
        /// The database rejects it.
        case rejected
    }

    /// Stores calls of a file, many in a statement. Returns the outcome of each.
    ///
    /// - Throws: The error that kept some calls from being stored. Another attempt has no effect on those already stored.
    func store(_ calls: [ReceivedCall], on loop: EventLoop, _ logger: Logger) async throws -> [Outcome] {
        var outcomes = [Outcome](repeating: .known, count: calls.count)
        // Events are stored one after the other, since each may be a transaction, for which there are few connections.
        try await withThrowingTaskGroup(of: (Int, Outcome).self) { group in
            for (index, call) in calls.enumerated() where !call.isEvents {
                group.addTask(executorPreference: loop) { (index, try await storeUnlessRejected(call, logger)) }
            }
            for try await (index, outcome) in group { outcomes[index] = outcome }
        }
        for (index, call) in calls.enumerated() where call.isEvents {
            outcomes[index] = try await storeUnlessRejected(call, logger)
        }
        return outcomes
    }

    private func storeUnlessRejected(_ call: ReceivedCall, _ logger: Logger) async throws -> Outcome {
        do {
            return try await store(call) ? .new : .known
        } catch let error as PostgresError where error.isRejection {
            logger.error("Journal record rejected", metadata: ["error": "\(String(reflecting: error))"])
            return .rejected
        }
    }
}

extension ReceivedCall {
    fileprivate var isEvents: Bool {
        guard case .events = self else { return false }
        return true
    }
}
