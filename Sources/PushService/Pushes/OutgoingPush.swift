internal import DequeModule
internal import KakaoAPI

/// A push as far as this server sends it.
final class OutgoingPush {
    /// How soon batches are claimed again after there were none: while another server may be preparing more, and after that. Milliseconds.
    private static let preparingInterval: UInt64 = 200
    private static let preparedInterval: UInt64 = 1000
    /// The batches rejected in a row that cast doubt on the message rather than on their users. A few may contain a user who is at fault; a
    /// message that Kakao no longer accepts costs two requests per user until that is known.
    private static let rejectionsInDoubt = 3

    let push: BatchStore.Active
    let message: SendMessage
    /// Claimed, and not sent yet.
    var claims = Deque<BatchClaim>()
    var inFlight = 0
    /// Results that are not stored yet.
    var pendingWrites = 0
    // In the loop's milliseconds.
    /// There is nothing to claim before.
    var idleUntil: UInt64 = 0
    /// Nothing is sent from then on: `expires_at` by the database's clock.
    var expiry: UInt64?
    /// When a batch may be tried again, as far as this server knows.
    private var nextRetry = UInt64.max
    var isPrepared = false
    /// Since the last attempt to finish it, its preparation ended or a final result was stored.
    var mayBeFinished = true
    /// Its expiry has been stored.
    var isExpiring = false
    /// Kakao has refused the Admin key or the API for it, which is being stored.
    var isHalting = false
    /// Kakao has accepted the message for a user.
    private var wasAccepted = false
    /// Batches of which Kakao has rejected the whole or a part (-2) since it last accepted a request.
    private var rejectedBatches: Set<Int32> = []
    /// Batches that were to be split; their number when batches were last claimed; those whose halves are not stored yet.
    var splits = 0
    var splitsAtClaim = 0
    var unsplit = 0

    init(_ push: BatchStore.Active, message: SendMessage) {
        self.push = push
        self.message = message
    }

    /// Kakao has accepted the message.
    func recordAcceptance() {
        wasAccepted = true
        rejectedBatches = []
    }

    /// Kakao has rejected the message, or a user of a batch.
    func recordRejection(of claim: BatchClaim) {
        if !isRejectedRepeatedly { rejectedBatches.insert(claim.origin ?? claim.number) }
    }

    /// Kakao has rejected several batches in a row.
    var isRejectedRepeatedly: Bool { rejectedBatches.count >= Self.rejectionsInDoubt }

    /// The message may be at fault.
    var isMessageInDoubt: Bool { !wasAccepted || isRejectedRepeatedly }

    /// Nothing is sent until the halves of the rejected batches are stored, and then only these until the message is out of doubt.
    var isHeld: Bool { unsplit > 0 && isMessageInDoubt }

    func isExpired(at now: UInt64) -> Bool { expiry.map { now >= $0 } ?? false }

    /// A batch may be tried again at `time`.
    func recordRetry(at time: UInt64) {
        nextRetry = min(nextRetry, time)
        idleUntil = min(idleUntil, time)
    }

    /// There was nothing to claim.
    func recordNothingToClaim(at now: UInt64) {
        if nextRetry <= now { nextRetry = .max }
        idleUntil = min(now + (isPrepared ? Self.preparedInterval : Self.preparingInterval), nextRetry)
    }

    /// The batches that this server holds of it.
    var heldBatches: Int { claims.count + inFlight + pendingWrites }
}
