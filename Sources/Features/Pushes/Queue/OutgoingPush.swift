import DequeModule
import KakaoAPI

/// The state of a push that this server sends.
final class OutgoingPush {
    /// The time in milliseconds until the next claim after there was nothing to claim: while more batches may be
    /// prepared, and after that.
    private static let preparingInterval: UInt64 = 200
    private static let preparedInterval: UInt64 = 1000
    /// The number of batches rejected in a row at which the message may be invalid, and not only their users. A few
    /// batches may contain an invalid user, but an invalid message costs two requests per user until it is detected.
    private static let rejectionsInDoubt = 3

    let push: BatchStore.Active
    let message: EncodedPushMessage
    /// The batches that are claimed and not sent yet.
    var claims = Deque<BatchClaim>()
    var inFlight = 0
    /// The number of results that are not stored yet.
    var pendingWrites = 0
    // Times in milliseconds of the loop's clock.
    /// The time before which there is nothing to claim.
    var idleUntil: UInt64 = 0
    /// The time after which nothing is sent: `expires_at`, converted from the database's clock.
    var expiry: UInt64?
    /// The end of the hours for advertising, after which nothing is sent until they begin again; `nil` if it is no advertising.
    var hoursEnd: UInt64?
    /// The earliest retry of a batch that this server knows of.
    private var nextRetry = UInt64.max
    var isPrepared = false
    /// Whether its preparation has ended or a final result was stored since the last attempt to finish it.
    var mayBeFinished = true
    /// Whether its expiry is stored or being stored.
    var isExpiring = false
    /// Whether a halt is being stored, because Kakao rejected the Admin key or the app.
    var isHalting = false
    /// Whether Kakao has accepted the message for a user.
    private var wasAccepted = false
    /// The batches that Kakao has rejected (-2), in whole or in part, since it last accepted a request.
    private var rejectedBatches: Set<Int32> = []
    /// The number of batches that were to be split.
    private var splits = 0
    /// The value of `splits` when batches were last claimed.
    private var splitsAtClaim = 0
    /// The number of batches to be split whose halves are not stored yet.
    private var unsplit = 0

    init(_ push: BatchStore.Active, message: EncodedPushMessage) {
        self.push = push
        self.message = message
    }

    /// Records that Kakao has accepted the message.
    func recordAcceptance() {
        wasAccepted = true
        rejectedBatches = []
    }

    /// Records that Kakao has rejected the message, or a user of a batch.
    func recordRejection(of claim: BatchClaim) {
        if !isRejectedRepeatedly { rejectedBatches.insert(claim.origin ?? claim.number) }
    }

    /// Records that Kakao has rejected a batch, whose halves are sent on their own.
    func recordSplit(of claim: BatchClaim) {
        recordRejection(of: claim)
        splits += 1
        unsplit += 1
    }

    /// Records that the halves of a batch are stored.
    func recordHalves() {
        unsplit -= 1
        idleUntil = 0
    }

    /// Records that batches are about to be claimed.
    func beginClaim() { splitsAtClaim = splits }

    /// Whether the message was rejected while batches were being claimed.
    var isRejectedSinceClaim: Bool { splits != splitsAtClaim && isMessageInDoubt }

    /// Whether Kakao has rejected several batches in a row.
    var isRejectedRepeatedly: Bool { rejectedBatches.count >= Self.rejectionsInDoubt }

    /// Whether the message may be invalid.
    var isMessageInDoubt: Bool { !wasAccepted || isRejectedRepeatedly }

    /// Whether nothing is sent until the halves of the rejected batches are stored. After that, only these are sent
    /// until the message is known to be valid.
    var isHeld: Bool { unsplit > 0 && isMessageInDoubt }

    /// Whether nothing of it is claimed or sent any more.
    func isOver(at now: UInt64) -> Bool { isExpired(at: now) || hoursEnd.map { now >= $0 } ?? false }

    func isExpired(at now: UInt64) -> Bool { expiry.map { now >= $0 } ?? false }

    /// Records that a batch may be retried at `time`.
    func recordRetry(at time: UInt64) {
        nextRetry = min(nextRetry, time)
        idleUntil = min(idleUntil, time)
    }

    /// Records that there was nothing to claim.
    func recordNothingToClaim(at now: UInt64) {
        if nextRetry <= now { nextRetry = .max }
        idleUntil = min(now + (isPrepared ? Self.preparedInterval : Self.preparingInterval), nextRetry)
    }

    /// The number of its batches that this server holds.
    var heldBatches: Int { claims.count + inFlight + pendingWrites }
}
