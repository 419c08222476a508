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

/// A background worker that verifies the account events which arrived while Kakao's keys could not be fetched, and stores
/// those that Kakao signed.
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

    /// Verifies waiting events until none is left, or until the keys cannot be fetched.
    private func replay(_ worker: BackgroundWorker) async throws {
        let (begin, beginDate) = (MonotonicTime.now, Date())
        var (stored, dropped) = (0, 0)
        defer {
            if stored + dropped > 0 {
                logger.notice("Account events verified", metadata: ["stored": "\(stored)", "dropped": "\(dropped)"])
            }
        }
        while !worker.isStopping, let batch = await journal.nextBatch(limit: Self.batchSize) {
            // Keys that were fetched in this pass may lack those of later events.
            guard batch.records.allSatisfy({ $0.time < beginDate }) else { return }
            var rejected: [Int] = []
            for (index, record) in batch.records.enumerated() {
                do {
                    if try await storeIfValid(record, since: begin) { stored += 1 } else { dropped += 1 }
                } catch is UndecidedKey {
                    // The keys still cannot be fetched.
                    return
                } catch let error as PostgresError where error.isRejection {
                    logger.error("Journal record rejected", metadata: ["error": "\(String(reflecting: error))"])
                    rejected.append(index)
                }
            }
            try await journal.confirm(batch, rejected: rejected)
        }
    }

    /// Stores the events of a token that Kakao signed. Returns whether it did.
    private func storeIfValid(_ record: JournalRecord, since arrival: MonotonicTime) async throws -> Bool {
        guard let unverified = UnverifiedEvents(record: record.payload),
            let token = JSONWebToken(unverified.token, .securityEvent),
            let events = try? KakaoEvent.all(in: token, receivedAt: unverified.receivedAt),
            try await verifier.rejectionReason(of: token, since: arrival, isUrgent: true, client, on: loop) == nil
        else { return false }
        _ = try await store.store(.events(events))
        return true
    }
}
