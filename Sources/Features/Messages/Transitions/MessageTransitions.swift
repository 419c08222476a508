/// An event that changes a message, by a statement in this folder.
enum MessageEvent: CaseIterable, Sendable {
    /// The result of the last receiver is stored: ``FinishMessages``.
    case finish
    /// An operator cancels the message: ``CancelMessage``.
    case cancel
    /// `expires_at` has come: ``ExpireMessages``.
    case expire

    /// The state that it leads to, from ``StoredMessageState/active``. In any other state its statement changes nothing.
    var after: StoredMessageState {
        switch self {
        case .finish: .done
        case .cancel: .canceled
        case .expire: .expired
        }
    }
}

/// An event that changes a receiver, by a statement in this folder.
///
/// A receiver is claimed under the lease of a server, together with its reservation of the quotas. The result of a claim
/// counts only while the receiver is under that lease and has not been claimed again.
enum ReceiverEvent: CaseIterable, Sendable {
    /// The uuid of the receiver was found among the sender's friends: ``ResolveReceivers``.
    case resolve
    /// Something about the sender or the receiver prevents the request: ``ResolveReceivers``, ``FailReceivers``.
    case exclude
    /// A server claims the receiver to send the message at once: ``ClaimReceivers``.
    case claim
    /// A quota is used up, and the message waits for the next day: ``ClaimReceivers``.
    case wait
    /// A quota is used up, and the message does not wait: ``ClaimReceivers``.
    case exceed
    /// Kakao has reached the receiver: ``RecordReceivers``.
    case accept
    /// The receiver was not reached and is tried again: ``RecordReceivers``.
    case postpone
    /// The receiver was claimed and no request was made: ``RecordReceivers``.
    case release
    /// Kakao rejects the receiver for good, or the attempts are used up: ``RecordReceivers``.
    case fail
    /// The response was lost, and the message is sent at most once: ``RecordReceivers``.
    case loseResponse
    /// The message ended while the receiver was `sending`, and Kakao was not reached: ``RecordReceivers``, ``ReclaimReceivers``.
    case skipResult
    /// The server stopped, and the message is sent at least once: ``ReclaimReceivers``.
    case reclaim
    /// The server stopped, and the message is sent at most once: ``ReclaimReceivers``.
    case abandon
    /// PostgreSQL has lost that Kakao has reached the receiver: ``RestoreReceivers``.
    case restore
    /// PostgreSQL has lost that the receiver may have been reached: ``RestoreReceivers``.
    case presume
    /// The message is canceled or expires: ``CancelMessage``, ``ExpireMessages``.
    case skip

    /// The states in which the event happens.
    var before: Set<ReceiverState> {
        switch self {
        case .resolve: [.pending]
        case .exclude, .claim, .wait, .exceed, .skip: [.pending, .waiting]
        case .restore, .presume: [.pending, .waiting, .sending]
        case .accept, .postpone, .release, .fail, .loseResponse, .skipResult, .reclaim, .abandon: [.sending]
        }
    }

    /// The states that it leads to.
    var after: Set<ReceiverState> {
        switch self {
        case .resolve, .reclaim, .release: [.pending]
        case .claim: [.sending]
        case .wait: [.waiting]
        case .postpone: [.pending, .waiting]
        case .accept, .restore: [.sent]
        case .presume: [.pending, .uncertain, .skipped]
        case .exclude, .exceed, .fail: [.failed]
        case .loseResponse, .abandon: [.uncertain]
        case .skip, .skipResult: [.skipped]
        }
    }
}
