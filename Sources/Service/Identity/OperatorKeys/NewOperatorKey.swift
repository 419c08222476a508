import Crypto
package import Endpoints
package import FoundationEssentials

/// A key to create.
package struct NewOperatorKey: Sendable {
    package let id = UUID.v7()
    /// The key itself, which is shown once and stored nowhere.
    let secret = OperatorKeyStore.prefix + RandomKey.hexadecimal(words: 4)
    /// A name that says to whom the key belongs.
    let name: String
    let scopes: Set<Scope>
    /// The time at which the key expires; `nil` for never.
    let expiresAt: Date?
    /// The name of the key or of the user that creates this one.
    let createdBy: String
    /// The id of the key that creates this one; `nil` for a command on the server's machine.
    let createdByKey: UUID?
    let idempotency: Idempotency?

    /// - Parameter creator: The key that creates this one.
    package init(
        name: String,
        scopes: Set<Scope>,
        expiresAt: Date?,
        by creator: KeyIdentity,
        idempotency: Idempotency?
    ) {
        self.name = name
        self.scopes = scopes
        self.expiresAt = expiresAt
        createdBy = creator.name
        createdByKey = creator.id
        self.idempotency = idempotency
    }

    /// A key that a command on the server's machine creates.
    init(name: String, scopes: Set<Scope>, expiresAt: Date?) {
        self.name = name
        self.scopes = scopes
        self.expiresAt = expiresAt
        createdBy = AuditRecord.localName
        createdByKey = nil
        idempotency = nil
    }
}

/// The outcome of a request that creates a key.
package struct OperatorKeyCreation: Sendable {
    package let key: OperatorKey
    /// The key itself; `nil` if an earlier request with the same `Idempotency-Key` has created it.
    package let secret: String?
}
