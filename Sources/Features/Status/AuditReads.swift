import FoundationEssentials
import Postgres

/// Reads of the audit log.
struct AuditReads: Sendable {
    /// The number of records of a page of the export.
    private static let pageSize = 1000

    let pool: PostgresPool

    /// The records to list.
    struct Filter: Sendable {
        /// The id of the operator key.
        var keyID: UUID?
        var operation: String?
        var userID: Int64?
        var since: Date?
        var until: Date?
        /// The last record of the previous page; `nil` for the first page.
        var before: UUID?
    }

    /// Returns up to `limit` records that pass `filter`, the latest first.
    func list(_ filter: Filter, limit: Int) async throws -> [StoredAuditRecord] {
        try await pool.read(ListAuditRecords(filter: filter, limit: limit))
    }

    /// Returns the next records of the export, the earliest first.
    ///
    /// - Parameter id: The last record of the previous page; `nil` for the first page.
    func page(since: Date?, until: Date?, after id: UUID?) async throws -> [StoredAuditRecord] {
        try await pool.read(ListAuditRecordsForward(since: since, until: until, after: id, limit: Self.pageSize))
    }
}

// MARK: Statements

/// Lists records of the audit log, the latest first.
struct ListAuditRecords: PostgresStatement {
    static let sql: SQL = """
        SELECT id, at, key_id, key_name, address, operation, object, user_id, reason, request_id
        FROM find_audit_records($1, $2, $3, $4, $5, $6, $7)
        """

    let filter: AuditReads.Filter
    let limit: Int

    var parameters: [PostgresValue] {
        [
            .uuid(filter.keyID), .text(filter.operation), .int64(filter.userID), .timestamp(filter.since),
            .timestamp(filter.until), .uuid(filter.before), .int64(Int64(limit)),
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
