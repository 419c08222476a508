/// The state of a batch.
///
/// A batch that was not tried before is a place in a row of `push_parts`. During its first attempt it is a bit in a row of `push_claims`:
/// ``SettleBatches`` marks it as sent there. For any other event it gets a row of its own in `push_batches`, from ``SettleBatches`` or, when
/// its lease has ended, from ``AddRowsOfSharedBatches``.
package enum BatchState: String, Sendable, CaseIterable {
    /// To be sent, now or after a delay.
    case waiting
    /// Claimed by a server under its lease.
    case sending
    /// Kakao has accepted it.
    case sent
    /// Kakao has rejected it, or it has used up its attempts.
    case failed
    /// Its response was lost, and its push is sent at most once.
    case uncertain
}

/// An event that changes batches, by a statement in this folder.
///
/// A batch in flight changes only under the lease and for the claim that its request belongs to, and counts in `push_counts` when it ends.
enum BatchEvent: CaseIterable, Sendable {
    /// A server claims the batch: ``ClaimBatches``.
    case claim
    /// Kakao accepts the batch: ``RecordBatchResults``.
    case accept
    /// The batch is tried again after a delay: ``RecordBatchResults``.
    case postpone
    /// The batch was claimed and not sent: ``RecordBatchResults``.
    case release
    /// Kakao rejects the batch, or it has used up its attempts: ``RecordBatchResults``.
    case fail
    /// The response is lost, and the push is sent at most once: ``RecordBatchResults``.
    case loseResponse
    /// Kakao rejects the batch for one of its users: ``SplitBatch``.
    case split
    /// The server's lease expires: ``ReclaimBatches``.
    case reclaim
    /// The server's lease expires, and the push is sent at most once: ``ReclaimBatches``.
    case abandon
    /// PostgreSQL has lost the result of a batch that Kakao has accepted: ``RestoreBatches``.
    case restore
    /// PostgreSQL has lost the result of a batch that Kakao may have accepted: ``RestoreBatches``.
    case presume
    /// PostgreSQL has lost the result of a batch that Kakao may have accepted, and the push is sent at most once: ``RestoreBatches``.
    case presumeUncertain
    /// An operator retries the failed batches of the push: ``RetryBatches``.
    case retry
    /// An operator retries the failed and uncertain batches of the push: ``RetryBatches``.
    case retryUncertain

    /// The states in which the event changes a batch, and the states that it leads to. In any other state its statement changes nothing.
    var transitions: [BatchState: BatchState] {
        switch self {
        case .claim: [.waiting: .sending]
        case .accept: [.sending: .sent]
        case .postpone, .release, .split, .reclaim: [.sending: .waiting]
        case .fail: [.sending: .failed]
        case .loseResponse, .abandon: [.sending: .uncertain]
        case .restore: [.waiting: .sent, .sending: .sent]
        case .presume: [.waiting: .waiting, .sending: .waiting]
        case .presumeUncertain: [.waiting: .uncertain, .sending: .uncertain]
        case .retry: [.failed: .waiting]
        case .retryUncertain: [.failed: .waiting, .uncertain: .waiting]
        }
    }
}
