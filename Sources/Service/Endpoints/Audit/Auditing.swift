/// How calls of an operation by an operator are recorded in the audit log. Calls by users and by Kakao are not.
package enum Auditing: Sendable {
    /// Returns what a call is about.
    ///
    /// - Throws: ``Problem`` for a call that is rejected.
    package typealias Subject = @Sendable (Call) throws -> AuditSubject

    /// Not recorded: the operation changes nothing and concerns no single person, or the row that it stores names the key.
    case none
    /// The handler stores the record, in the transaction of the change.
    case handler
    /// The record is stored before the operation begins, and deleted if the operation is rejected: for a change at Kakao, or
    /// of several transactions. If it cannot be stored, the operation fails.
    case ahead(Subject)
    /// Like ``ahead(_:)``, but the record remains if the operation is rejected: Kakao may reject it after it has changed
    /// something here.
    case kept(Subject)
    /// A download of personal data, which takes a reason (``AuditLog/reason``). Recorded like ``ahead(_:)``.
    case download(Subject)
    /// A lookup of persons, which is recorded after its response is known, and whether or not the record can be stored.
    case lookup(Subject)
}

extension OperationDeclaration {
    /// Whether the audit log has records of the operation.
    var isRecorded: Bool {
        switch auditing {
        case .none: false
        case .handler, .ahead, .kept, .download, .lookup: true
        }
    }
}
