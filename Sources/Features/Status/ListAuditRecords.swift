import FoundationEssentials
import Postgres

/// Lists records of the audit log, the latest first.
struct ListAuditRecords: PostgresStatement {
    static let sql: SQL = """
        SELECT \(StoredAuditRecord.columns)
        FROM list_audit_records($1, $2, $3, $4, $5, $6, $7, $8)
        """

    /// The id of the operator key.
    var keyID: UUID?
    var operation: String?
    /// The object that the operation concerned: the id of a push or a key, or the name of an audience.
    var object: String?
    var userID: Int64?
    var since: Date?
    var until: Date?
    /// The last record of the previous page; `nil` for the first page.
    var before: UUID?
    let limit: Int

    var parameters: [PostgresValue] {
        [
            .uuid(keyID), .text(operation), .text(object), .int64(userID), .timestamp(since), .timestamp(until),
            .uuid(before), .int64(Int64(limit)),
        ]
    }
    static func decode(_ row: PostgresRow) throws -> StoredAuditRecord { try row.decode { try StoredAuditRecord(&$0) } }
}

/// Lists records of the audit log, the earliest first. The id of a record has the time of the server's clock, and `at` that of the
/// database's: up to an hour apart, as in `list_audit_records`.
struct ListAuditRecordsForward: PostgresStatement {
    static let sql: SQL = """
        SELECT \(StoredAuditRecord.columns)
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
    /// The last record of the previous page; `nil` for the first page.
    let after: UUID?
    let limit: Int

    var parameters: [PostgresValue] {
        [.timestamp(since), .timestamp(until), .uuid(after), .int64(Int64(limit))]
    }
    static func decode(_ row: PostgresRow) throws -> StoredAuditRecord { try row.decode { try StoredAuditRecord(&$0) } }
}
