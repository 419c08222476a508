import Endpoints
import EventLoop
import HTTPServer
import HTTPTypes
import Journal
import Logging
import Postgres
import Runtime
import ServiceKit

/// The intake of calls from Kakao, which waits 3 seconds and does not call again. Each call is stored, or appended to
/// the journal while PostgreSQL is unavailable.
///
/// There is one instance for each event loop.
final class CallIntake: @unchecked Sendable {
    // `timeouts` and `nextProbe` are accessed on the event loop only, which `isStalled` and `record(_:)` check.

    /// The time limit for PostgreSQL to store a call.
    private static let storeLimit = Duration.seconds(2)
    /// The time limit for the response to Kakao, counted from the arrival of the request's head.
    private static let answerLimit = Duration.milliseconds(2700)
    /// The part of ``answerLimit`` that is reserved for the journal.
    private static let journalLimit = Duration.milliseconds(500)
    /// The number of consecutive timeouts after which PostgreSQL counts as stalled. A single statement may have waited
    /// for a lock.
    private static let stalledAfter = 4
    /// How often a stalled PostgreSQL is tried again.
    private static let probeInterval = Duration.seconds(1)

    private let store: ReceivedCallStore
    private let journal: Journal?
    private let unverifiedEvents: Journal?
    private let gate: StartupGate
    private let loop: EventLoop
    private let malformedCalls: HourlyLimit
    private let notices: LoopCounts<CallbackCounts.Notice>.Own
    private let logger: Logger

    private var timeouts = 0
    /// When a stalled PostgreSQL is tried next, by the event loop's clock.
    private var nextProbe: UInt64 = 0

    /// - Parameters:
    ///   - store: The store of `loop`.
    ///   - journal: The journal. Without one, calls are rejected while PostgreSQL is unavailable.
    ///   - unverifiedEvents: The journal of account events that cannot be verified now. Without one, they are rejected.
    ///   - malformedCalls: The limit of malformed calls that are stored, which the loops of a server share.
    ///   - notices: The counts of `loop`.
    init(
        store: ReceivedCallStore,
        journal: Journal?,
        unverifiedEvents: Journal?,
        gate: StartupGate,
        loop: EventLoop,
        malformedCalls: HourlyLimit,
        notices: LoopCounts<CallbackCounts.Notice>.Own,
        logger: Logger
    ) {
        self.store = store
        self.journal = journal
        self.unverifiedEvents = unverifiedEvents
        self.gate = gate
        self.loop = loop
        self.malformedCalls = malformedCalls
        self.notices = notices
        self.logger = logger
    }

    /// A call as it was read.
    enum Reading: Sendable {
        /// All of it was understood.
        case understood(ReceivedCall)
        /// A part of it was not understood; `nil` if nothing can be stored.
        case malformed(ReceivedCall?)
        /// It lacks a required signature, and is dropped.
        case unsigned
        /// It cannot be verified now, because of the problem.
        case unverified(UnverifiedEvents, Problem)
    }

    /// Reads and stores a call, and counts what became of it. When this returns, the call is committed or in the
    /// journal, even if the client has disconnected; or it is one of those that are only counted.
    ///
    /// - Throws: Errors of `read`; ``Problem`` 503 when the call can neither be stored nor written to the journal;
    ///   ``PostgresError`` when the database rejects it and there is no journal.
    func receive(_ kind: NoticeKind, _ request: Request, _ read: () async throws -> Reading) async throws {
        var outcome = NoticeOutcome.failed
        defer { notices.add(to: CallbackCounts.Notice(kind: kind, outcome: outcome)) }
        let reading: Reading
        do {
            reading = try await read()
        } catch {
            // Strangers can cause these as often as they like.
            let isRefusal = [.forbidden, .tooManyRequests].contains((error as? Problem)?.status)
            if isRefusal || error is SecurityEventRefusal { outcome = .refused }
            throw error
        }
        switch reading {
        case .understood(let call): outcome = try await storeOrJournal(call, request) ? .stored : .repeated
        case .malformed(let call):
            // Phones can cause any number of malformed callbacks.
            if let call, call.hasEffect || malformedCalls.allows(at: .now) {
                _ = try await storeOrJournal(call, request)
            }
            outcome = .malformed
        case .unsigned: outcome = .refused
        case .unverified(let events, let problem):
            guard let unverifiedEvents else { throw problem }
            try await append(
                JournalRecord(time: events.receivedAt, payload: events.record),
                to: unverifiedEvents,
                request
            )
            outcome = .unverified
        }
    }

    /// Stores a call. Returns whether it was new. A call in the journal counts as new.
    private func storeOrJournal(_ call: ReceivedCall, _ request: Request) async throws -> Bool {
        guard let journal else { return try await request.uninterrupted { [store] in try await store.store(call) } }
        // The limit is not positive if the request itself arrived slowly.
        let limit = min(Self.storeLimit, remaining(request) - Self.journalLimit)
        if gate.isOpen, limit > .zero, !isStalled {
            do {
                let isNew = try await store(call, within: limit)
                record(isTimeout: false)
                return isNew
            } catch let error as PostgresError {
                // A call that PostgreSQL rejects is set aside when it is replayed.
                record(isTimeout: error.code == .timedOut)
            }
        }
        try await append(JournalRecord(time: call.receivedAt, payload: call.record), to: journal, request)
        return true
    }

    /// Stores a call. Returns whether it was new.
    ///
    /// - Throws: ``PostgresError``, with ``PostgresError/Code/timedOut`` after `limit`.
    private func store(_ call: ReceivedCall, within limit: Duration) async throws -> Bool {
        if case .linkCallback(let callback) = call {
            // Thousands of link callbacks may arrive in a second, so none gets a task of its own.
            return try await store.store(callback, within: limit)
        }
        let isNew = try await loop.run(within: limit) { [store] in try await store.store(call) }
        guard let isNew else { throw PostgresError(.timedOut) }
        return isNew
    }

    private func append(_ record: JournalRecord, to journal: Journal, _ request: Request) async throws {
        let (loop, logger, id) = (loop, logger, request.id)
        // A hanging disk must not delay the response to Kakao.
        try await Promise.uninterruptedValue(
            on: loop,
            within: max(remaining(request), Self.journalLimit),
            timeout: PostgresError(.unavailable).problem
        ) { promise in
            journal.append(record) { result in
                let answer = result.mapError { error -> any Error in
                    // The journal logs its own failure once.
                    logger.debug("Call not journaled", metadata: ["request_id": "\(id)", "error": "\(error)"])
                    return PostgresError(.unavailable, detail: error.description).problem
                }
                loop.execute { promise.complete(answer) }
            }
        }
    }

    /// Returns the time left until Kakao must have a response.
    private func remaining(_ request: Request) -> Duration {
        Self.answerLimit - .milliseconds(loop.now - min(request.startedAt, loop.now))
    }

    /// Whether PostgreSQL is stalled and this call is not the one that tries it again.
    private var isStalled: Bool {
        loop.preconditionOnLoop()
        guard timeouts >= Self.stalledAfter else { return false }
        guard loop.now >= nextProbe else { return true }
        nextProbe = loop.now + Self.probeInterval.wholeMilliseconds
        return false
    }

    private func record(isTimeout: Bool) {
        loop.preconditionOnLoop()
        timeouts = isTimeout ? timeouts + 1 : 0
        if timeouts == Self.stalledAfter { nextProbe = loop.now + Self.probeInterval.wholeMilliseconds }
    }
}

extension PostgresError {
    /// Whether another attempt to store the same values would fail as well: data exception (22), constraint (23),
    /// program limit (54), trigger (P0), or values that cannot be sent.
    var isRejection: Bool {
        code == .invalidParameter || code == .server && ["22", "23", "54", "P0"].contains(sqlStateClass)
    }
}
