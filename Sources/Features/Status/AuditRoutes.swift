import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import Postgres
import Schemas

/// `/v1/audit`: what operators have changed, downloaded and looked up.
struct AuditRoutes: RouteCollection {
    static let title = "Audit log"
    static let operations = [listing, exporting]

    /// The number of records that are read at a time.
    private static let pageSize = 1000

    let pool: PostgresPool

    private static let since = Field.optional("since", .time, "Only records since then.")
    private static let until = Field.optional("until", .time, "Only records before then.")

    // MARK: Listing

    private static let keyID = Field.optional(
        "key_id",
        .uuid,
        "Only of this operator key: `push-server keys list` shows the ids. Zeros for the key in the settings."
    )
    private static let operation = Field.optional(
        "operation",
        .text(1...64),
        "Only of this operation, by the name in this document, such as `cancelPush`."
    )
    private static let userID = Field.optional("user_id", .userID, "Only about this user.")

    private static let listing = Operation(
        OperationDeclaration(
            "listAuditRecords",
            .get,
            "/v1/audit",
            .operator(.admin),
            "Lists what operators have changed, downloaded and looked up, the latest first.",
            query: [keyID, operation, userID, since, until] + Page<UUID>.fields,
            answers: [.page(of: StoredAuditRecord.shape, "The records.")]
        ),
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<UUID>(call)
        let records = try await pool.read(
            ListAuditRecords(
                keyID: call[Self.keyID],
                operation: call[Self.operation],
                userID: call[Self.userID],
                since: call[Self.since],
                until: call[Self.until],
                before: page.cursor,
                limit: page.limit + 1
            )
        )
        return page.response(records, StoredAuditRecord.shape, cursor: \.id)
    }

    // MARK: Export

    private static let exporting = Operation(
        OperationDeclaration(
            "exportAuditRecords",
            .get,
            "/v1/audit/export",
            .operator(.admin),
            "Exports the audit log, the earliest record first.",
            query: [since, until],
            answers: [.media(.ok, [TransferFormat.ndjson.contentType], "One record a line.")],
            auditing: .download { _ in .server }
        ),
        handler: export
    )

    @Sendable private func export(_ call: Call) async throws -> Response {
        let (since, until) = (try call[Self.since], try call[Self.until])
        return try await .export(TransferFormat.ndjson.contentType) { [pool] (last: StoredAuditRecord?) in
            try await pool.read(
                ListAuditRecordsForward(since: since, until: until, after: last?.id, limit: Self.pageSize)
            )
        } write: { record, bytes in
            bytes += StoredAuditRecord.shape.json(record)
            bytes.append(UInt8(ascii: "\n"))
        }
    }
}

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
    fileprivate init(_ row: PostgresRow) throws {
        self = try row.decode { column in
            try StoredAuditRecord(
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
}

// MARK: Statements

/// Lists records of the audit log, the latest first.
struct ListAuditRecords: PostgresStatement {
    static let sql: SQL = """
        SELECT id, at, key_id, key_name, address, operation, object, user_id, reason, request_id
        FROM find_audit_records($1, $2, $3, $4, $5, $6, $7)
        """

    let keyID: UUID?
    let operation: String?
    let userID: Int64?
    let since: Date?
    let until: Date?
    let before: UUID?
    let limit: Int

    var parameters: [PostgresValue] {
        [
            .uuid(keyID), .text(operation), .int64(userID), .timestamp(since), .timestamp(until), .uuid(before),
            .int64(Int64(limit)),
        ]
    }
    static func decode(_ row: PostgresRow) throws -> StoredAuditRecord { try StoredAuditRecord(row) }
}

/// Lists records of the audit log, the earliest first. The id of a record has the time of the server's clock, and `at` that of the
/// database's: up to an hour apart, as in `find_audit_records`.
struct ListAuditRecordsForward: PostgresStatement {
    static let sql: SQL = """
        SELECT id, at, key_id, key_name, address, operation, object, user_id, reason, request_id
        FROM audit_records
        WHERE id > COALESCE($3, uuid_v7_floor($1 - interval '1 hour'), '00000000-0000-0000-0000-000000000000')
            AND id <= COALESCE(uuid_v7_floor($2 + interval '1 hour'), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
            AND ($1::timestamptz IS NULL OR at >= $1)
            AND ($2::timestamptz IS NULL OR at < $2)
        ORDER BY id
        LIMIT $4
        """

    let since: Date?
    let until: Date?
    let after: UUID?
    let limit: Int

    var parameters: [PostgresValue] {
        [.timestamp(since), .timestamp(until), .uuid(after), .int64(Int64(limit))]
    }
    static func decode(_ row: PostgresRow) throws -> StoredAuditRecord { try StoredAuditRecord(row) }
}

/// Deletes up to `limit` records that were stored more than `retentionDays` ago, the oldest first. Skips rows that another
/// server is deleting.
struct DeleteOldAuditRecords: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM audit_records
        WHERE id IN (
            SELECT id
            FROM audit_records
            WHERE id < uuid_v7_floor(now() - make_interval(days => $1))
            ORDER BY id
            LIMIT $2
            FOR UPDATE SKIP LOCKED
        )
        """

    let retentionDays: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: retentionDays)), .int64(Int64(limit))] }
}
