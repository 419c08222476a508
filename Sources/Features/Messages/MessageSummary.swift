import Endpoints
import FoundationEssentials
import Postgres
import Runtime
import Schemas
import Sharing
import Templates

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
    var finishedAt: Date?
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

// MARK: Statements

extension MessageSummary {
    /// The columns of `message_summaries` that ``init(_:)`` decodes. A message that has not ended is shown as scheduled or sending.
    static let columns: SQL = """
        message.id, message.sender,
            CASE WHEN message.state <> 'active' THEN message.state WHEN message.send_at > now() THEN 'scheduled' ELSE 'sending' END,
            message.delivery, message.when_over_quota, message.send_at, message.expires_at, message.created_at, message.created_by,
            message.finished_at, message.receiver_states, message.receivers
        """

    /// Decodes ``columns``.
    init(_ column: inout ColumnCursor) throws {
        try self.init(
            id: column.next(),
            sender: column.next(),
            state: MessageState(rawValue: column.next()) ?? .sending,
            delivery: Delivery(rawValue: column.next()) ?? .atMostOnce,
            whenOverQuota: OverQuota(rawValue: column.next()) ?? .wait,
            sendAt: column.next(),
            expiresAt: column.next(),
            createdAt: column.next(),
            createdBy: column.next(),
            finishedAt: column.next(),
            receivers: zip(column.next([String].self), column.next([Int64].self)).reduce(into: [:]) {
                if let state = ReceiverState(rawValue: $1.0) { $0[state] = $1.1 }
            }
        )
    }
}

/// Reads a message with the number of its receivers in each state.
struct ReadMessage: PostgresStatement {
    static let sql: SQL = """
        SELECT \(MessageSummary.columns)
        FROM message_summaries AS message
        WHERE id = $1
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
    static func decode(_ row: PostgresRow) throws -> MessageSummary {
        try row.decode { try MessageSummary(&$0) }
    }
}

/// Lists messages with the numbers of their receivers, the latest first.
struct ListMessages: PostgresStatement {
    static let sql: SQL = """
        SELECT \(MessageSummary.columns)
        FROM message_summaries AS message
        WHERE ($1::uuid IS NULL OR id < $1)
            AND ($2::text IS NULL OR CASE $2
                WHEN 'scheduled' THEN state = 'active' AND send_at > now()
                WHEN 'sending' THEN state = 'active' AND (send_at IS NULL OR send_at <= now())
                ELSE state = $2
            END)
            AND ($3::bigint IS NULL OR sender = $3)
        ORDER BY id DESC
        LIMIT $4
        """

    /// `nil` for all states.
    let state: MessageState?
    /// `nil` for all senders.
    let sender: Int64?
    /// The last message of the previous page; `nil` for the first page.
    let before: UUID?
    let limit: Int

    var parameters: [PostgresValue] {
        [.uuid(before), .text(state?.rawValue), .int64(sender), .int64(Int64(limit))]
    }
    static func decode(_ row: PostgresRow) throws -> MessageSummary {
        try row.decode { try MessageSummary(&$0) }
    }
}
