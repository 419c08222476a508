import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import Postgres
import Schemas

/// `/v1/audit`: what operators have changed, downloaded and looked up.
struct AuditRoutes: RouteCollection {
    static let title = "Audit log"
    static let operations = [listing, exporting]

    /// The number of records of a page of the export.
    private static let pageSize = 1000

    let pool: PostgresPool
    /// The ids of the operations that leave records, sorted.
    let recordedOperations: [String]

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
        "Only of this operation, by the name in this document, such as `cancelPush`. One that leaves no records is rejected."
    )
    private static let object = Field.optional(
        "object",
        .text(1...200),
        "Only about this object: the id of a push or a key, or the name of an audience."
    )
    private static let userID = Field.optional("user_id", .userID, "Only about this user.")

    private static let listing = Operation(
        "listAuditRecords",
        .get,
        "/v1/audit",
        .operator(.admin),
        "Lists what operators have changed, downloaded and looked up, the latest first.",
        query: [keyID, operation, object, userID, since, until] + Page<UUID>.fields,
        answers: [.page(of: StoredAuditRecord.shape, "The records.")],
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<UUID>(call)
        let list = ListAuditRecords(
            keyID: try call[Self.keyID],
            operation: try operation(call),
            object: try call[Self.object],
            userID: try call[Self.userID],
            since: try call[Self.since],
            until: try call[Self.until],
            before: page.cursor,
            limit: page.limit + 1
        )
        return page.response(try await pool.read(list, mayBeBehind: true), StoredAuditRecord.shape, cursor: \.id)
    }

    /// Returns the operation that a request names.
    ///
    /// - Throws: ``Problem`` 400 for one that leaves no records: a misspelt name must not look like an operation without calls.
    private func operation(_ call: Call) throws -> String? {
        guard let name = try call[Self.operation] else { return nil }
        guard !recordedOperations.contains(name) else { return name }
        let suggestion = Suggestion.closest(to: name, among: recordedOperations).map { "Did you mean `\($0)`?" }
        throw Problem.field(Self.operation.name, "one of \(recordedOperations.joined(separator: ", "))", suggestion)
    }

    // MARK: Export

    private static let exporting = Operation(
        "exportAuditRecords",
        .get,
        "/v1/audit/export",
        .operator(.admin),
        "Exports the audit log, the earliest record first.",
        query: [since, until],
        answers: [.media(.ok, [TransferFormat.ndjson.contentType], "One record a line.")],
        auditing: .download { _ in .server },
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
