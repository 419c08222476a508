internal import DequeModule
internal import KakaoAPI

/// A push, as far as this server sends it.
final class OutgoingPush {
    /// How soon it is asked for batches again when it had none: while another server may prepare it, and after that.
    private static let preparingInterval: UInt64 = 200
    private static let preparedInterval: UInt64 = 1000

    let push: BatchStore.Active
    let message: SendMessage
    var claims = Deque<BatchClaim>()
    var underWay = 0
    var unwritten = 0
    // In the loop's milliseconds.
    /// There is nothing to claim before.
    var idleUntil: UInt64 = 0
    /// When a batch may be tried again, as far as this server knows.
    private var nextRetry = UInt64.max
    var isPrepared = false
    /// All of it was prepared, or something final written, since it was last asked whether it is finished.
    var mayBeFinished = true
    var isExpiring = false
    /// Kakao has taken the message for somebody.
    var wasAccepted = false
    /// Batches that were to be split; so many when batches were last asked for; those of which the halves are not stored yet.
    var splits = 0
    var splitsAtClaim = 0
    var unsplit = 0

    init(_ push: BatchStore.Active, message: SendMessage) {
        self.push = push
        self.message = message
    }

    /// It may be the message that is wrong: nobody is tried before the halves are stored, nor then outside of them until that is known.
    var isHeld: Bool { unsplit > 0 && !wasAccepted }

    /// A batch may be tried again then.
    func noteRetry(at time: UInt64) {
        nextRetry = min(nextRetry, time)
        idleUntil = min(idleUntil, time)
    }

    /// There was nothing to claim.
    func hasNothing(at now: UInt64) {
        if nextRetry <= now { nextRetry = .max }
        idleUntil = min(now + (isPrepared ? Self.preparedInterval : Self.preparingInterval), nextRetry)
    }

    var isBusy: Bool { !claims.isEmpty || underWay > 0 || unwritten > 0 }
}
