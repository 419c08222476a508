import Endpoints
import FoundationEssentials
import HTTPServer
import JSON
import Runtime
import Schemas
import Sharing
import Templates

/// A requested message that is not stored yet.
struct NewMessage: Sendable {
    var id = UUID.v7()
    let sender: Int64
    let receivers: MessageReceivers
    let content: MessageContent
    var delivery = Delivery.atMostOnce
    var whenOverQuota = OverQuota.wait
    var times = SendingTimes()
    /// The name of the operator key.
    var createdBy: String?
}

// MARK: Reading

extension NewMessage {
    /// The fields of `POST /v1/messages` that describe the message.
    static let fields: [any FieldDeclaration] =
        [senderField, receiversField] + MessageContent.fields + SendingTimes.fields
        + [deliveryField, whenOverQuotaField]

    private static let senderField = Field.required("sender", .userID, "The user in whose name the message is sent.")
    private static let receiversField = Field.required("to", .messageReceivers, "The receivers.")
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
        times = try SendingTimes(call)
    }
}

// MARK: Showing

extension NewMessage {
    /// Returns the message as it is shown before anything is sent.
    func summary(_ findings: [Finding], createdAt: Date) -> MessageSummary {
        MessageSummary(
            id: id,
            sender: sender,
            state: times.sendAt.map { $0 > createdAt } == true ? .scheduled : .sending,
            delivery: delivery,
            whenOverQuota: whenOverQuota,
            sendAt: times.sendAt,
            expiresAt: times.expiresAt,
            createdAt: createdAt,
            createdBy: createdBy,
            receivers: [.pending: Int64(receivers.count)],
            findings: findings
        )
    }
}
