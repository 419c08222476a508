import EventLoop
import FoundationEssentials
import Runtime

/// What this server knows about receivers if PostgreSQL loses their results: those of the last minutes whom it has reached, or may
/// have reached.
struct KnownReceivers {
    /// A receiver whom this server has reached, or may have reached.
    struct Receiver: Sendable {
        let messageID: UUID
        let position: Int32
        /// Whether Kakao has confirmed that it reached the receiver.
        let isSent: Bool
    }

    private var receivers = RecentValues<ClaimID, Receiver>(maximum: 100_000)

    /// Records a result, as soon as Kakao has responded.
    mutating func record(_ result: ReceiverResult, of claim: ReceiverClaim) {
        guard result.state == .sent || result.state == .uncertain || result.mayRepeat else { return }
        let isSent = result.state == .sent
        receivers.store(
            Receiver(messageID: claim.messageID, position: claim.position, isSent: isSent),
            for: claim.id
        )
    }

    var all: [Receiver] { Array(receivers.all.values) }
}
