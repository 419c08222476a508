import Endpoints
import FoundationEssentials
import Postgres
import Schemas

/// A record as it is shown.
struct StoredAuditRecord: Sendable {
    let id: UUID
    let at: Date
    let keyID: UUID?
    let keyName: String
    let address: String?
    let operation: String
    let object: String?
    let userID: Int64?
    let reason: String?
    let requestID: String?

    static let shape = Shape<StoredAuditRecord>(
        "AuditRecord",
        [
            .member("id", .uuid, "The id of the record, which sorts by time.", \.id),
            .member("at", .time, "When it was stored, by the database's clock.", \.at),
            .member("actor", actor.kind, "Who.", \.self),
            .nullable("address", .text, "The address of the client; null for a command.", \.address),
            .member("operation", .text, "What: the operation by the name in this document, or a command.", \.operation),
            .nullable("object", .text, "The id or the name of what it was about, other than a user.", \.object),
            .nullable("user_id", .userID, "The user whom it was about.", \.userID),
            .nullable("reason", .text, "The reason that the operator gave.", \.reason),
            .nullable(
                "request_id",
                .text,
                "The `X-Request-Id`, which log lines name too; null for a command.",
                \.requestID
            ),
        ]
    )

    private static let actor = Shape<StoredAuditRecord>(
        "AuditActor",
        [
            .nullable(
                "key_id",
                .uuid,
                "The id of the operator key: zeros for the key in the settings, null for a command on the server's machine.",
                \.keyID
            ),
            .member("name", .text, "The name of the key, or of the program and its user.", \.keyName),
        ]
    )
}

extension StoredAuditRecord {
    static let columns: SQL = "id, at, key_id, key_name, address, operation, object, user_id, reason, request_id"

    /// Decodes ``columns``.
    init(_ column: inout ColumnCursor) throws {
        try self.init(
            id: column.next(),
            at: column.next(),
            keyID: column.next(),
            keyName: column.next(),
            address: column.next(),
            operation: column.next(),
            object: column.next(),
            userID: column.next(),
            reason: column.next(),
            requestID: column.next()
        )
    }
}
