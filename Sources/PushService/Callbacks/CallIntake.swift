internal import EventLoop
internal import HTTPServer
internal import Journal
internal import Logging
internal import Postgres

/// Takes calls from Kakao, which waits 3 seconds and does not call again: stores each, or appends it to the journal while PostgreSQL does not answer.
///
/// One for each loop.
final class CallIntake: @unchecked Sendable {
    // `timeouts` and `nextProbe` are touched on the loop only, which `isStalled` and `record(_:)` check.

    /// How long PostgreSQL may take to store a call.
    private static let storeLimit = Duration.seconds(2)
    /// When Kakao is answered at the latest, after the head of the request came.
    private static let answerLimit = Duration.milliseconds(2700)
    /// The part of ``answerLimit`` that is reserved for the journal.
    private static let journalLimit = Duration.milliseconds(500)
    /// Time-outs in a row after which PostgreSQL counts as unreachable: one statement may have waited for a lock.
    private static let stalledAfter = 4
    /// How often it is tried then.
    private static let probeInterval = Duration.seconds(1)

    private let store: ReceivedCallStore
    private let journal: Journal?
    private let gate: StartupGate
    private let loop: EventLoop
    private let logger: Logger

    private var timeouts = 0
    /// By the loop's clock.
    private var nextProbe: UInt64 = 0

    /// - Parameters:
    ///   - store: Of `loop`.
    ///   - journal: Without one, calls are refused while PostgreSQL does not answer.
    init(store: ReceivedCallStore, journal: Journal?, gate: StartupGate, loop: EventLoop, logger: Logger) {
        self.store = store
        self.journal = journal
        self.gate = gate
        self.loop = loop
        self.logger = logger
    }

    /// Keeps a call: when this returns, it is committed or in the journal. A client that hangs up changes nothing.
    ///
    /// - Throws: ``Problem`` 503 when neither is possible; ``PostgresError`` when the database rejects it.
    func keep(_ call: ReceivedCall, _ request: Request) async throws {
        guard let journal else { return try await request.uninterrupted { [store] in try await store.store(call) } }
        // None if the request itself was slow to arrive.
        let limit = min(Self.storeLimit, remaining(request) - Self.journalLimit)
        if gate.isOpen, limit > .zero, !isStalled {
            do {
                try await store(call, within: limit)
                return record(isTimeout: false)
            } catch let error as PostgresError where !error.isRejection {
                record(isTimeout: error.code == .timedOut)
            }
        }
        try await append(call, to: journal, request)
    }

    /// - Throws: ``PostgresError``; after `limit` ``PostgresError/Code/timedOut``.
    private func store(_ call: ReceivedCall, within limit: Duration) async throws {
        if case .linkCallback(let callback) = call {
            // There may be thousands a second: without a task for each.
            return try await store.callbacks.insert(callback, within: limit)
        }
        let stored: Void? = try await loop.run(within: limit) { [store] in try await store.store(call) }
        if stored == nil { throw PostgresError(.timedOut) }
    }

    private func append(_ call: ReceivedCall, to journal: Journal, _ request: Request) async throws {
        let record = JournalRecord(time: call.receivedAt, payload: call.record)
        let (loop, logger, id) = (loop, logger, request.id)
        // A disk that hangs must not keep Kakao waiting.
        try await Promise.uninterruptedValue(
            on: loop,
            within: max(remaining(request), Self.journalLimit),
            timeout: PostgresError(.unavailable).problem
        ) { promise in
            journal.append(record) { result in
                let answer = result.mapError { error -> any Error in
                    // The journal logs what is wrong with it, once.
                    logger.debug("Call not journaled", metadata: ["request_id": "\(id)", "error": "\(error)"])
                    return PostgresError(.unavailable, detail: error.description).problem
                }
                loop.execute { promise.complete(answer) }
            }
        }
    }

    /// The time until Kakao must be answered.
    private func remaining(_ request: Request) -> Duration {
        Self.answerLimit - .milliseconds(loop.now - min(request.startedAt, loop.now))
    }

    /// Whether PostgreSQL has stopped answering and this is not the call that tries it again.
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
    /// Whether the database could not do its work, whatever it was asked: no connection, time-out, overload, and the SQLSTATE classes connection
    /// exception (08), insufficient resources (53), operator intervention (57) and read-only transaction (25006); and deadlocks (40), which pass.
    var isOutage: Bool {
        isTransient || ["08", "40", "53", "57"].contains(sqlStateClass) || sqlState == "25006"
    }

    /// Whether another attempt to store the same values would fail as well: data exception (22), constraint (23), program limit (54), trigger (P0), and
    /// values that cannot be sent.
    var isRejection: Bool {
        code == .invalidParameter || code == .server && ["22", "23", "54", "P0"].contains(sqlStateClass)
    }
}
