import Endpoints
import FoundationEssentials
import KakaoAPI
import Postgres
import Schemas

/// An upload of users to a customer file, which the server sends to Kakao in parts.
struct CustomerUpload: Sendable {
    enum Action: String, CaseIterable, Sendable, StoredChoice {
        /// Adds the users, or replaces their fields.
        case update
        case delete
    }

    enum State: String, CaseIterable, Sendable, StoredChoice {
        case sending, done
        /// Kakao has refused a part, or has not accepted all of them within 14 days. Those before were accepted.
        case failed
        case canceled
    }

    let id: UUID
    let channelPublicID: String
    let fileID: Int64
    let type: CustomerType
    let action: Action
    var state = State.sending
    var users: Int64 = 0
    var sent: Int64 = 0
    var accepted: Int64 = 0
    var reason: String?
    let createdBy: String?
    let createdAt: Date
    var finishedAt: Date?

    static let shape = Shape<CustomerUpload>(
        "CustomerUpload",
        [
            .member("id", .uuid, "The id of the upload.", \.id),
            .member("channel_public_id", .text, "The channel, as in its address.", \.channelPublicID),
            .member("file_id", .count, "The customer file.", \.fileID),
            .member("user_type", .choice, "How the users are named: by user ids or by phone numbers.", \.type),
            .member("action", .choice, "Whether the users are added to the file or deleted from it.", \.action),
            .member(
                "state",
                .choice,
                "`sending`, `done`, `failed` if Kakao has refused a part or has not accepted all within 14 days, or `canceled`.",
                \.state
            ),
            .member("users", Counts.shape.kind, "The users of the upload.") { Counts($0) },
            .nullable("reason", .text, "Why it has failed, or why the next part waits.", \.reason),
            .nullable("created_by", .text, "The name of the operator key.", \.createdBy),
            .member("created_at", .time, "When it was uploaded.", \.createdAt),
            .nullable("finished_at", .time, "When it ended.", \.finishedAt),
        ]
    )

    /// The users of an upload.
    private struct Counts: Sendable {
        let total: Int64
        let sent: Int64
        let accepted: Int64

        init(_ upload: CustomerUpload) {
            (total, sent, accepted) = (upload.users, upload.sent, upload.accepted)
        }

        static let shape = Shape<Counts>(
            "CustomerUploadUsers",
            [
                .member("total", .count, "All of them.", \.total),
                .member("sent", .count, "Those whose part Kakao has accepted.", \.sent),
                .member(
                    "accepted",
                    .count,
                    "Those that count as success at Kakao. Of an `update`, the others are no friends of the channel.",
                    \.accepted
                ),
                .member("not_accepted", .count, "Those that were sent and do not count.") { $0.sent - $0.accepted },
            ]
        )
    }

    static let columns: SQL = """
        id, channel_public_id, file_id, user_type, action, state, users, users_sent, users_accepted, reason, created_by,
        created_at, finished_at
        """

    /// Decodes ``columns``.
    init(_ column: inout ColumnCursor) throws {
        id = try column.next()
        channelPublicID = try column.next()
        fileID = try column.next()
        type = try column.next()
        action = try column.next()
        state = try column.next()
        users = try column.next()
        sent = try column.next()
        accepted = try column.next()
        reason = try column.next()
        createdBy = try column.next()
        createdAt = try column.next()
        finishedAt = try column.next()
    }

    init(
        id: UUID,
        channelPublicID: String,
        fileID: Int64,
        type: CustomerType,
        action: Action,
        createdBy: String?,
        createdAt: Date
    ) {
        self.id = id
        self.channelPublicID = channelPublicID
        self.fileID = fileID
        self.type = type
        self.action = action
        self.createdBy = createdBy
        self.createdAt = createdAt
    }
}

extension CustomerType: StoredChoice {}
