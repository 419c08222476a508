import FoundationEssentials
import Runtime

/// The receivers of the last minutes whom this server has reached, or may have reached: what it knows if PostgreSQL loses the results.
///
/// The older half is forgotten after ``period``, or when there are very many.
struct KnownReceivers {
    /// What is known of a receiver.
    struct Receiver: Sendable {
        let messageID: UUID
        let position: Int32
        /// Whether Kakao has reached the receiver; if not, it may have.
        let isSent: Bool
    }

    /// The time, in milliseconds, for which a receiver is known at least, unless there are too many.
    private static let period: UInt64 = 300_000
    private static let maximumReceivers = 50_000

    private var current: [ClaimID: Receiver] = [:]
    private var previous: [ClaimID: Receiver] = [:]
    private var currentSince: UInt64 = 0

    /// Records a result, as soon as Kakao has responded.
    ///
    /// - Parameter now: A monotonic time in milliseconds.
    mutating func record(_ result: ReceiverResult, of claim: ReceiverClaim, at now: UInt64) {
        guard result.state == .sent || result.state == .uncertain || result.mayRepeat else { return }
        if now >= currentSince + Self.period || current.count >= Self.maximumReceivers {
            previous = current
            current = [:]
            currentSince = now
        }
        current[claim.id] = Receiver(
            messageID: claim.messageID,
            position: claim.position,
            isSent: result.state == .sent
        )
    }

    var all: [Receiver] { Array(previous.values) + Array(current.values) }
}
