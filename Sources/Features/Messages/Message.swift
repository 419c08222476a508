import FoundationEssentials
import Postgres
import Runtime
import Schemas
import Sharing

/// What happens to a message whose quota of the day is used up.
enum OverQuota: String, Sendable, CaseIterable {
    /// It waits for the next day.
    case wait
    /// It fails.
    case fail
}

extension Kind where Value == OverQuota {
    static var overQuota: Kind { .choice.named("OverQuota") }
}

/// The state of a message in the database.
enum StoredMessageState: String, Sendable {
    /// It is scheduled or being sent.
    case active
    case done, canceled, expired
}

/// The state of a message.
enum MessageState: String, Sendable, CaseIterable {
    /// `send_at` has not come.
    case scheduled
    /// Receivers are pending, sending or waiting.
    case sending
    /// Each receiver has an outcome.
    case done
    case canceled, expired
}

extension Kind where Value == MessageState {
    static var messageState: Kind { .choice.named("MessageState") }
}

/// The state of a receiver.
enum ReceiverState: String, Sendable, CaseIterable {
    /// It is sent as soon as possible.
    case pending
    /// The request is being made.
    case sending
    /// It is sent later: see `retry_at`.
    case waiting
    /// Kakao has reached the receiver.
    case sent
    /// The receiver was not reached, and is not tried again.
    case failed
    /// The request left, and no response came.
    case uncertain
    /// The message was canceled or expired before.
    case skipped

    /// Whether nothing more happens to the receiver.
    var isFinal: Bool {
        switch self {
        case .pending, .sending, .waiting: false
        case .sent, .failed, .uncertain, .skipped: true
        }
    }
}

extension Kind where Value == ReceiverState {
    static var receiverState: Kind { .choice.named("ReceiverState") }
}

/// A receiver that a server has claimed.
struct ReceiverClaim: Sendable {
    let messageID: UUID
    let position: Int32
    let claims: Int32
    let attempts: Int32
    let lease: UUID
    /// `nil` for the sender.
    let uuid: String?
    /// Whether it is sent in a request of its own.
    let isAlone: Bool
    /// Kakao's error code of the attempt before.
    let lastCode: Int32?

    var id: ClaimID { ClaimID(ownerID: messageID, number: position, claims: claims) }
}

extension ReceiverClaim {
    /// The columns of `message_receivers` that ``init(_:)`` decodes.
    static let columns: SQL = "message_id, position, claims, attempts, lease, uuid, is_alone, code"

    init(_ column: inout ColumnCursor) throws {
        try self.init(
            messageID: column.next(),
            position: column.next(),
            claims: column.next(),
            attempts: column.next(),
            lease: column.next(),
            uuid: column.next(),
            isAlone: column.next(),
            lastCode: column.next()
        )
    }
}

/// Receivers of a message that are sent with one request.
struct ReceiverBatch: Sendable {
    let message: SendingMessage
    let receivers: [ReceiverClaim]
}

/// A message that is being sent, as far as its requests need it.
struct SendingMessage: Sendable {
    let id: UUID
    let sender: Int64
    let addressing: Addressing
    let content: MessageContent
    let delivery: Delivery
    let whenOverQuota: OverQuota
}

/// A message whose receivers have no uuid yet.
struct UnresolvedMessage: Sendable {
    let id: UUID
    let sender: Int64
}
