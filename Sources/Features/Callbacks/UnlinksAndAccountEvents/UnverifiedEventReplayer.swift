import Endpoints
import EventLoop
import FoundationEssentials
import HTTPClient
import HTTPServer
import Identity
import Journal
import Logging
import Postgres
import Runtime

/// A background worker that verifies the account events which arrived while Kakao's keys could not be fetched, or not again yet,
/// and stores those that Kakao signed.
struct UnverifiedEventReplayer: Sendable {
    /// How often events are verified. The keys are fetched no more often for them.
    private static let interval = Duration.seconds(15)
    /// The number of events that are confirmed together.
    private static let batchSize = 100

    let journal: Journal
    let verifier: TokenVerifier
    /// The client of `loop`.
    let client: HTTPClient
    let store: ReceivedCallStore
    let loop: EventLoop
    let logger: Logger

    func worker() -> BackgroundWorker {
        BackgroundWorker(
            "verify-account-events",
            on: loop,
            every: Self.interval,
            retryAfter: Self.interval,
            pace: nil,
            failure: "Account events not verified",
            logger: logger
        ) { worker in
            await journal.adopt()
            journal.reopen()
            try await replay(worker)
            return nil
        }
    }

    /// Verifies each of the events that wait at present. An event goes to the end of the journal if the keys were not fetched since
    /// it arrived, so that strangers who send events with invented keys hold up no other.
    private func replay(_ worker: BackgroundWorker) async throws {
        var left = journal.status.records
        var (stored, dropped) = (0, 0)
        defer {
            if stored + dropped > 0 {
                logger.notice("Account events verified", metadata: ["stored": "\(stored)", "dropped": "\(dropped)"])
            }
        }
        while left > 0, !worker.isStopping, let batch = await journal.nextBatch(limit: min(left, Self.batchSize)) {
            // A batch of damaged bytes has none.
            left -= max(1, batch.records.count)
            var rejected: [Int] = []
            var undecided: [JournalRecord] = []
            for (index, record) in batch.records.enumerated() {
                do {
                    if try await storeIfValid(record) { stored += 1 } else { dropped += 1 }
                } catch is UndecidedKey {
                    undecided.append(record)
                } catch let error as PostgresError where error.isRejection {
                    logger.error("Journal record rejected", metadata: ["error": "\(String(reflecting: error))"])
                    rejected.append(index)
                }
            }
            try await appendAgain(undecided)
            try await journal.confirm(batch, rejected: rejected)
        }
    }

    /// Stores the events of a token that Kakao signed. Returns whether it did.
    ///
    /// - Throws: ``UndecidedKey``, ``PostgresError``
    private func storeIfValid(_ record: JournalRecord) async throws -> Bool {
        // A clock that was set back makes the event look younger, so that another fetch is needed.
        let age = Duration.seconds(max(0, Date().timeIntervalSince(record.time)))
        guard let unverified = UnverifiedEvents(record: record.payload),
            let token = JSONWebToken(unverified.token, .securityEvent),
            let events = try? KakaoEvent.all(in: token, receivedAt: unverified.receivedAt),
            try await verifier.rejectionReason(of: token, since: .now + (.zero - age), isUrgent: true, client, on: loop)
                == nil
        else { return false }
        _ = try await store.store(.events(events))
        return true
    }

    /// Appends records once more, because the records of a batch are confirmed together.
    private func appendAgain(_ records: [JournalRecord]) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for record in records {
                group.addTask {
                    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                        journal.append(record) { continuation.resume(with: $0.mapError { $0 as any Error }) }
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}
