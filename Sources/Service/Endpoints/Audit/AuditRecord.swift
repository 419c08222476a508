import FoundationEssentials
import Glibc
import HTTPServer
import Net
package import Postgres

/// A record of the audit log: who did what, to what or to whom.
package struct AuditRecord: Sendable {
    /// UUID version 7, so that records are sorted by time.
    let id: UUID
    /// The id of the operator key; `nil` for a command on the server's machine.
    let keyID: UUID?
    package let keyName: String
    /// The address of the client; `nil` for a command.
    let address: String?
    /// The id of the operation, such as `cancelPush`.
    let operation: String
    let subject: AuditSubject.Item
    /// The reason that the operator has given; `nil` for an operation that takes none.
    let reason: String?
    /// The id of the request, which log lines name too; `nil` for a command.
    let requestID: String?

    /// The name of the user who runs this process, as records of commands have it in place of a key's.
    package static let localName: String = {
        let user = getpwuid(getuid())
        return "push-server (\(user.map { String(cString: $0.pointee.pw_name) } ?? "user \(getuid())"))"
    }()

    /// The record of a command on the server's machine, which needs no operator key.
    ///
    /// - Parameters:
    ///   - operation: The id of the operation that does the same over HTTP, such as `createKey`.
    ///   - object: What it is about; `nil` for the server as a whole.
    package init(ofCommandLike operation: String, object: String? = nil) {
        id = .v7()
        keyID = nil
        keyName = Self.localName
        address = nil
        self.operation = operation
        subject = .init(object: object)
        reason = nil
        requestID = nil
    }

    fileprivate init(_ call: Call, _ key: KeyIdentity, _ subject: AuditSubject.Item, reason: String?) {
        id = .v7()
        keyID = key.id
        keyName = key.name
        address = call.request.clientAddress.host
        operation = call.operation.id
        self.subject = subject
        self.reason = reason
        requestID = call.request.id
    }
}

/// What an operation is about: an object, users, or both.
package struct AuditSubject: Sendable {
    /// The subject of one record.
    struct Item: Sendable {
        var object: String?
        var userID: Int64?
    }

    /// One item for each user; one without a user for an object.
    fileprivate let items: [Item]

    /// An operation on the server as a whole.
    package static let server = AuditSubject(items: [Item()])

    /// - Parameter id: The id or the name of an object.
    package static func object(_ id: String, of userID: Int64? = nil) -> AuditSubject {
        AuditSubject(items: [Item(object: id, userID: userID)])
    }

    /// Each user has a record, so that all accesses to a user's data are found by the user's id.
    package static func users(_ ids: [Int64], object: String? = nil) -> AuditSubject {
        AuditSubject(items: ids.map { Item(object: object, userID: $0) })
    }

    package static func user(_ id: Int64, object: String? = nil) -> AuditSubject { .users([id], object: object) }
}

extension Call {
    /// Returns the record of this call, for an operation whose handler stores it (``Auditing/handler``); `nil` if the caller
    /// is not an operator.
    ///
    /// - Parameter reason: The reason that the operator has given.
    package func auditRecord(of subject: AuditSubject, reason: String? = nil) -> AuditRecord? {
        auditRecords(of: subject, reason: reason).first
    }

    /// Returns the records of this call: one for each user, or one for an object. None if the caller is not an operator.
    func auditRecords(of subject: AuditSubject, reason: String? = nil) -> [AuditRecord] {
        guard let key = caller.key else { return [] }
        return subject.items.map { AuditRecord(self, key, $0, reason: reason) }
    }
}

extension PostgresPool {
    /// Runs a change and stores its record, in one transaction. A change that affects no row stores no record.
    ///
    /// - Parameter record: The record; `nil` for a change that needs none.
    /// - Returns: The number of rows that the change affected.
    package func write<Statement: PostgresStatement>(
        _ statement: Statement,
        recording record: AuditRecord?
    ) async throws -> Int where Statement.Row == Never {
        guard let record else { return try await write(statement) }
        return try await withTransaction { transaction in
            let rows = try await transaction.query(statement) as Int
            if rows > 0 { try await transaction.record(record) }
            return rows
        }
    }

    /// Runs a change and stores its record, in one transaction. A change that returns no row stores no record.
    ///
    /// - Parameter record: The record; `nil` for a change that needs none.
    package func write<Statement: PostgresStatement>(
        _ statement: Statement,
        recording record: AuditRecord?
    ) async throws -> [Statement.Row] {
        guard let record else { return try await write(statement) }
        return try await withTransaction { transaction in
            let rows = try await transaction.query(statement) as [Statement.Row]
            if !rows.isEmpty { try await transaction.record(record) }
            return rows
        }
    }
}

extension PostgresTransaction {
    /// Stores a record in the transaction of its change; nothing for `nil`.
    package func record(_ record: AuditRecord?) async throws {
        guard let record else { return }
        try await query(InsertAuditRecords(records: [record]))
    }
}

// MARK: Statements

/// Stores records of the audit log.
struct InsertAuditRecords: CoalescedStatement {
    typealias Item = AuditRecord

    static let sql: SQL = """
        INSERT INTO audit_records (id, key_id, key_name, address, operation, object, user_id, reason, request_id)
        SELECT *
        FROM unnest(
            $1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[]
        )
        """

    let records: [AuditRecord]

    var parameters: [PostgresValue] {
        [
            .uuids(records.map(\.id)), .uuids(records.map(\.keyID)), .texts(records.map(\.keyName)),
            .texts(records.map(\.address)), .texts(records.map(\.operation)), .texts(records.map(\.subject.object)),
            .int64s(records.map(\.subject.userID)), .texts(records.map(\.reason)), .texts(records.map(\.requestID)),
        ]
    }
}
