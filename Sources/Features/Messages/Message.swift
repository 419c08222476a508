import Endpoints
import FoundationEssentials
import KakaoAPI
import Runtime
import ServiceKit
import Sharing

/// How a request names the receivers of a message.
enum Addressing: String, Sendable {
    /// The sender, in the chat with oneself.
    case me
    /// Friends of the sender, by the uuids of Kakao's friends list.
    case friends
    /// Friends of the sender, by their user ids.
    case users
}

/// The receivers of a message.
enum MessageReceivers: Sendable {
    /// The maximum number of receivers of one message.
    static let maximum = 10_000

    case me
    case friends([String])
    case users([Int64])

    var addressing: Addressing {
        switch self {
        case .me: .me
        case .friends: .friends
        case .users: .users
        }
    }

    var count: Int {
        switch self {
        case .me: 1
        case .friends(let uuids): uuids.count
        case .users(let ids): ids.count
        }
    }
}

/// What happens to a message whose quota of the day is used up.
enum OverQuota: String, Sendable, CaseIterable {
    /// It waits for the next day.
    case wait
    /// It fails.
    case fail
}

/// A requested message that is not stored yet.
struct NewMessage: Sendable {
    var id = UUID.v7()
    let sender: Int64
    let receivers: MessageReceivers
    let content: MessageContent
    var delivery = Delivery.atMostOnce
    var whenOverQuota = OverQuota.wait
    var sendAt: Date?
    var expiresAt: Date?
    /// The name of the operator key.
    var createdBy: String?
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
