import Endpoints
import FoundationEssentials
import HTTPServer
import JSON
import KakaoAPI
import Runtime
import Schemas
import ServiceKit
import Sharing
import Templates

// The parsing of messages from requests, and their JSON in responses.

extension NewMessage {
    /// The fields of `POST /v1/messages` that describe the message.
    static let fields: [any FieldDeclaration] =
        [senderField, receiversField] + MessageContent.fields
        + [sendAtField, expiresAtField, deliveryField, whenOverQuotaField]

    private static let senderField = Field.required("sender", .userID, "The user in whose name the message is sent.")
    private static let receiversField = Field.required("to", .messageReceivers, "The receivers.")
    private static let sendAtField = Field.optional("send_at", .time, "When to send. Without it, at once.")
    private static let expiresAtField = Field.optional("expires_at", .time, "The time after which nothing is sent.")
    private static let deliveryField = Field.optional(
        "delivery",
        .delivery,
        default: .atMostOnce,
        shown: .string(Delivery.atMostOnce.rawValue),
        "Whether a request whose response was lost is sent again, so that receivers may be reached twice."
    )
    private static let whenOverQuotaField = Field.optional(
        "when_over_quota",
        .overQuota,
        default: .wait,
        shown: .string(OverQuota.wait.rawValue),
        "Whether a message whose quota of the day is used up waits for the next day, or fails."
    )

    /// Reads the body of `POST /v1/messages`.
    ///
    /// - Throws: ``Problem`` for a missing or invalid field.
    init(_ call: Call) throws {
        self.init(
            sender: try call[Self.senderField],
            receivers: try call[Self.receiversField],
            content: try MessageContent(call)
        )
        delivery = try call[Self.deliveryField]
        whenOverQuota = try call[Self.whenOverQuotaField]
        sendAt = try call[Self.sendAtField]
        expiresAt = try call[Self.expiresAtField]
        if let expiresAt {
            guard expiresAt > Date() else { throw Problem.field("expires_at", "in the future") }
            if let sendAt, expiresAt <= sendAt { throw Problem.field("expires_at", "after send_at") }
        }
    }
}

extension Kind where Value == OverQuota {
    static var overQuota: Kind { .choice.named("OverQuota") }
}

extension Kind where Value == MessageState {
    static var messageState: Kind { .choice.named("MessageState") }
}

extension Kind where Value == ReceiverState {
    static var receiverState: Kind { .choice.named("ReceiverState") }
}

extension Kind where Value == MessageReceivers {
    /// The receivers: `"me"`, or an object with one member.
    fileprivate static var messageReceivers: Kind {
        let count = 1...MessageReceivers.maximum
        let uuids = Kind<[String]>.texts(count: count, length: 1...64)
        let users = Kind<[Int64]>.userIDs(count: count)
        let schema = Schema.oneOf([
            .constant("me"), Schema.object([("friends", uuids.input, true)]).named("FriendReceivers"),
            Schema.object([("users", users.input, true)]).named("UserReceivers"),
        ])
        let allowed = """
            "me", {"friends":[…]} (1 to \(count.upperBound) uuids of the sender's friends list), or {"users":[…]} (as many user ids), \
            each receiver once
            """
        return .input(schema.named("MessageReceivers"), allowed: allowed) { value throws(InvalidValue) in
            if value.string == "me" { return .me }
            guard let object = try value.structured().object, object.count == 1, let member = object.members.first
            else { throw InvalidValue() }
            switch member.name {
            case "friends":
                let uuids = try uuids.read(member.value)
                guard Set(uuids).count == uuids.count else { throw InvalidValue() }
                return .friends(uuids)
            case "users":
                let users = try users.read(member.value)
                guard Set(users).count == users.count else { throw InvalidValue() }
                return .users(users)
            default: throw InvalidValue()
            }
        }
    }
}

/// A message as it is shown.
struct MessageSummary: Sendable {
    let id: UUID
    let sender: Int64
    let state: MessageState
    let delivery: Delivery
    let whenOverQuota: OverQuota
    let sendAt: Date?
    let expiresAt: Date?
    let createdAt: Date
    /// The name of the operator key; `nil` for a message of an earlier version of the server.
    let createdBy: String?
    let finishedAt: Date?
    /// The number of receivers in each state.
    let receivers: [ReceiverState: Int64]
    /// What Kakao would cut or drop of the template; `nil` if it was not checked.
    var findings: [Finding]?

    static let shape = Shape<MessageSummary>(
        "Message",
        [
            .member("id", .uuid, "The id of the message.", \.id),
            .member("sender", .userID, "The user in whose name it is sent.", \.sender),
            .member("state", .messageState, "Its state.", \.state),
            .member("delivery", .delivery, "Whether a request whose response was lost is sent again.", \.delivery),
            .member("when_over_quota", .overQuota, "What happens when a quota is used up.", \.whenOverQuota),
            .nullable("send_at", .time, "When it is to be sent.", \.sendAt),
            .nullable("expires_at", .time, "The time after which nothing is sent.", \.expiresAt),
            .member("created_at", .time, "When it was created.", \.createdAt),
            .nullable("created_by", .text, "The name of the operator key that created it.", \.createdBy),
            .nullable("finished_at", .time, "When it ended.", \.finishedAt),
            .member("receivers", counts.kind, "Its receivers by state.", \.self),
            .optional(
                "findings",
                Finding.shape.kind.array,
                "What Kakao would cut or drop of the template. Only in the response to its creation.",
                \.findings
            ),
        ]
    )

    private static let counts = Shape<MessageSummary>(
        "ReceiverCounts",
        [.member("total", .count, "All.") { $0.receivers.values.reduce(0, +) }]
            + ReceiverState.allCases.map { state in
                .member(state.rawValue, .count, state.meaning) { $0.receivers[state] ?? 0 }
            }
    )
}

extension ReceiverState {
    /// The description in the OpenAPI document.
    fileprivate var meaning: String {
        switch self {
        case .pending: "Sent as soon as possible."
        case .sending: "The request is being made."
        case .waiting: "Sent later."
        case .sent: "Kakao has reached them."
        case .failed: "Not reached, and not tried again."
        case .uncertain: "The request left, and it is unknown whether Kakao reached them."
        case .skipped: "The message was canceled or expired before."
        }
    }
}

/// A receiver as it is shown.
struct ReceiverSummary: Sendable {
    let position: Int32
    let userID: Int64?
    let uuid: String?
    var state: ReceiverState
    var attempts: Int32 = 0
    var mayRepeat = false
    var code: Int32?
    var reason: Reason?
    var kakaoMessage: String?
    /// The scopes that the sender must agree to.
    var scopes: [String] = []
    var retryAt: Date?
    var finishedAt: Date?
    /// The page where the sender logs in and agrees to the scopes; `nil` if that is of no use, or there is none.
    var consentURL: String?

    static let shape = Shape<ReceiverSummary>(
        "MessageReceiver",
        [
            .nullable("user_id", .userID, "The user id, if it is known.", \.userID),
            .nullable("uuid", .text, "Kakao's id of the receiver among the sender's friends, if it is known.", \.uuid),
            .member("state", .receiverState, "The state.", \.state),
            .member("attempts", Kind<Int32>.number, "The number of requests.", \.attempts),
            .member("may_repeat", .boolean, "Whether the receiver may have been reached twice.", \.mayRepeat),
            .nullable("code", Kind<Int32>.number, "Kakao's error code.", \.code),
            .nullable("reason", .reason, "Why the receiver was not reached, or is not reached yet.", \.reason),
            .nullable("remedy", .text, "What to do about it.") { $0.reason?.remedy },
            .nullable("kakao_message", .text, "Kakao's words.", \.kakaoMessage),
            .array("required_scopes", .text, "The scopes that the sender must agree to.", \.scopes),
            .nullable("consent_url", .text, "Where the sender logs in and agrees to the scopes.", \.consentURL),
            .nullable("retry_at", .time, "When it is tried again.", \.retryAt),
            .nullable("finished_at", .time, "When the outcome was stored.", \.finishedAt),
        ]
    )

    /// Sets where the sender can remove the reason.
    mutating func setConsentURL(_ url: ([String]) -> String?) {
        if reason == .loginRequired || reason == .missingScope { consentURL = url(scopes) }
    }
}

/// The result of a dry run.
struct MessagePreview: Sendable {
    let receivers: [ReceiverSummary]
    let findings: [Finding]

    static let shape = Shape<MessagePreview>(
        "MessageDryRun",
        [
            .member("sendable", .count, "The number of receivers to whom the message would be sent at once.") {
                preview in
                Int64(preview.receivers.count { $0.state == .pending })
            },
            .array(
                "receivers",
                ReceiverSummary.shape.kind,
                "The receivers: `pending` if the message would be sent at once, `waiting` for a quota, or `failed`.",
                \.receivers
            ),
            .array("findings", Finding.shape.kind, "What Kakao would cut or drop of the template.", \.findings),
        ]
    )
}
