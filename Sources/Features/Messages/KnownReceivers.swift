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
        /// The number of claims of the receiver, including the one by which it was reached.
        let claims: Int32
        /// The user in whose name the message is sent. An erasure of that user deletes the message.
        let sender: Int64
        /// Whether Kakao has confirmed that it reached the receiver.
        let isSent: Bool
    }

    private var receivers = RecentValues<ClaimID, Receiver>(maximum: 100_000)

    /// Records a result, as soon as Kakao has responded.
    mutating func record(_ result: ReceiverResult, of claim: ReceiverClaim, from sender: Int64) {
        guard result.state == .sent || result.state == .uncertain || result.mayRepeat else { return }
        receivers.store(
            Receiver(
                messageID: claim.messageID,
                position: claim.position,
                claims: claim.claims,
                sender: sender,
                isSent: result.state == .sent
            ),
            for: claim.id
        )
    }

    var all: [Receiver] { Array(receivers.all.values) }
}
