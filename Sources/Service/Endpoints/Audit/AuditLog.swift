import EventLoop
import FoundationEssentials
package import HTTPServer
import HTTPTypes
package import Logging
package import Postgres
import Schemas

/// The audit log, as requests of one event loop write it. See ``Auditing``.
package struct AuditLog: Sendable {
    /// The reason of a download, for those who read the audit log.
    package static let reason = Field.required(
        "reason",
        .text(1...500),
        "Why the data is downloaded. The audit log keeps it."
    )

    /// The maximum length in characters of the other parameters of a download, as a record has them.
    private static let maxOtherParameters = 1000

    private let pool: PostgresPool
    private let records: StatementCoalescer<InsertAuditRecords>
    private let logger: Logger

    package init(pool: PostgresPool, logger: Logger) {
        self.pool = pool
        self.logger = logger
        records = StatementCoalescer(pool: pool, concurrency: 2) { InsertAuditRecords(records: $0) }
    }

    /// Runs a handler and records the call, as the operation declares.
    func recording(_ call: Call, _ handle: () async throws -> Response) async throws -> Response {
        guard call.caller.key != nil else { return try await handle() }
        switch call.operation.auditing {
        case .none, .handler:
            return try await handle()
        case .ahead(let subject):
            return try await recordingAhead(call.auditRecords(of: subject(call)), handle)
        case .kept(let subject):
            try await store(call.auditRecords(of: subject(call)))
            return try await handle()
        case .download(let subject):
            let reason = try call[Self.reason]
            guard reason.contains(where: { !$0.isWhitespace }) else {
                throw Problem.field(Self.reason.name, "a text that is not blank", "Say why the data is downloaded.")
            }
            return try await recordingAhead(
                call.auditRecords(of: subject(call), reason: reason + Self.otherParameters(of: call)),
                handle
            )
        case .lookup(let subject):
            let response = try await handle()
            if response.status.kind == .successful { add(try call.auditRecords(of: subject(call)), call) }
            return response
        }
    }

    /// Returns what a download has chosen, in parentheses: its parameters other than the reason. They are not checked yet, so that only
    /// printable characters, and not too many, are kept.
    private static func otherParameters(of call: Call) throws -> String {
        let others = try call.request.queryItems().filter { $0.name != reason.name }
        guard !others.isEmpty else { return "" }
        let text = others.map { "\($0.name)=\($0.value)" }.joined(separator: ", ")
        let isCut = text.unicodeScalars.count > maxOtherParameters
        let kept = text.unicodeScalars.prefix(maxOtherParameters).filter { $0.properties.generalCategory != .control }
        return " (\(String(String.UnicodeScalarView(kept)))\(isCut ? "…" : ""))"
    }

    /// Runs a change and records it as ``Auditing/ahead(_:)`` does, for a handler that must first find out what the call is
    /// about.
    package func recording(
        _ call: Call,
        of subject: AuditSubject,
        _ change: () async throws -> Response
    ) async throws -> Response {
        try await recordingAhead(call.auditRecords(of: subject), change)
    }

    private func recordingAhead(
        _ new: [AuditRecord],
        _ handle: () async throws -> Response
    ) async throws -> Response {
        try await store(new)
        do {
            let response = try await handle()
            if response.status.kind == .clientError { await remove(new) }
            return response
        } catch let problem as Problem where problem.status.kind == .clientError {
            await remove(new)
            throw problem
        }
    }

    private func store(_ new: [AuditRecord]) async throws {
        // Concurrently, so that one statement stores all.
        try await withThrowingDiscardingTaskGroup { group in
            for record in new { group.addTask { try await records.submit(record) } }
        }
    }

    /// Deletes the records of a change that was rejected. If that fails, they remain, which is the safe side.
    private func remove(_ records: [AuditRecord]) async {
        guard !records.isEmpty else { return }
        do {
            try await pool.write(DeleteAuditRecords(ids: records.map(\.id)))
        } catch {
            logger.warning(
                "Audit record of a rejected operation not deleted",
                metadata: ["operation": "\(records[0].operation)", "error": "\(error)"]
            )
        }
    }

    /// Stores records in the background.
    private func add(_ new: [AuditRecord], _ call: Call) {
        guard !new.isEmpty else { return }
        Task(executorPreference: pool.loop) {
            do {
                try await store(new)
            } catch {
                logger.warning(
                    "Lookup not recorded in the audit log",
                    metadata: [
                        "operation": "\(new[0].operation)", "key": "\(new[0].keyName)", "request": "\(call.request.id)",
                        "user_id": "\(new.compactMap { $0.subject.userID.map(String.init) }.joined(separator: " "))",
                        "error": "\(error)",
                    ]
                )
            }
        }
    }
}

// MARK: Statements

/// Deletes records of changes that were rejected.
struct DeleteAuditRecords: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM audit_records
        WHERE id = ANY ($1)
        """

    let ids: [UUID]

    var parameters: [PostgresValue] { [.uuids(ids)] }
}
