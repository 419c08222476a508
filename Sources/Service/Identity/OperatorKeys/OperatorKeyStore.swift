import Crypto
package import Endpoints
package import FoundationEssentials
package import Postgres

/// The stored data of an operator's or a backend's key. The key itself was shown once and is not stored.
package struct OperatorKey: Sendable {
    /// The id by which records name the key.
    package let id: UUID
    package let name: String
    package let scopes: Set<Scope>
    package let createdAt: Date
    package let expiresAt: Date?
    package let revokedAt: Date?
    /// The time of the last use, to about a minute; `nil` for never.
    package let lastUsedAt: Date?
}

/// The operator keys in PostgreSQL, created by `push-server keys`.
package struct OperatorKeyStore: Sendable {
    /// The prefix of every operator key. No user's token begins with it.
    package static let prefix = "kps_"

    let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Returns whether a text begins like an operator key.
    static func isKey(_ text: String) -> Bool {
        text.hasPrefix(prefix)
    }

    /// Creates a key and returns it. It cannot be shown again.
    ///
    /// - Parameters:
    ///   - name: A name that says to whom the key belongs.
    ///   - expiresAt: The time at which the key expires; `nil` for never.
    package func create(name: String, scopes: Set<Scope>, expiresAt: Date?) async throws -> String {
        let key = Self.prefix + RandomKey.hexadecimal(words: 4)
        let insert = InsertOperatorKey(
            id: UUID(),
            sha256: SHA256Digest.of(key),
            name: name,
            scopes: scopes,
            expiresAt: expiresAt
        )
        let record = AuditRecord(command: "keys create", object: insert.id.lowercased)
        _ = try await pool.write(insert, recording: record) as Int
        return key
    }

    /// Returns all keys, the oldest first.
    package func list() async throws -> [OperatorKey] {
        try await pool.read(ListOperatorKeys())
    }

    /// Revokes the key with an id at once. Returns whether there was such a key that was not revoked yet.
    package func revoke(id: UUID) async throws -> Bool {
        let record = AuditRecord(command: "keys revoke", object: id.lowercased)
        return try await pool.write(RevokeOperatorKeys(id: id, name: nil), recording: record) > 0
    }

    /// Revokes all keys with a name at once. Returns their number.
    package func revoke(name: String) async throws -> Int {
        let record = AuditRecord(command: "keys revoke", object: name)
        return try await pool.write(RevokeOperatorKeys(id: nil, name: name), recording: record)
    }
}

extension OperatorKeyStore {
    /// Returns why the key with a SHA-256 is not valid.
    func rejection(ofKeyWith sha256: [UInt8]) async throws -> CredentialRejection {
        try await pool.read(FindKeyRejection(sha256: sha256)).first ?? .unknownKey
    }
}

extension Set<Scope> {
    /// The scopes with these names, without the unknown ones.
    fileprivate init(names: [String]) {
        self.init(names.compactMap(Scope.init(rawValue:)))
    }
}

// MARK: Statements

/// Finds what the valid key with this SHA-256 allows, and for how long that may be cached: until the key expires, but for at
/// most a second. Returns no row if there is no such key, or it has expired or been revoked.
struct FindValidOperatorKey: PostgresStatement {
    static let sql: SQL = """
        SELECT id, name, scopes,
            extract(epoch FROM LEAST(expires_at, now() + interval '1 second') - now())::float8
        FROM operator_keys
        WHERE sha256 = $1
            AND revoked_at IS NULL
            AND (expires_at IS NULL OR expires_at > now())
        """

    let sha256: [UInt8]

    var parameters: [PostgresValue] { [.bytes(sha256)] }
    static func decode(_ row: PostgresRow) throws -> (grant: OperatorKeys.Grant, remaining: Duration) {
        try row.decode { column in
            let grant = try OperatorKeys.Grant(
                id: column.next(),
                name: column.next(),
                scopes: Set(names: column.next())
            )
            return (grant, .seconds(try column.next(Double.self)))
        }
    }
}

/// Finds out whether an invalid key with this SHA-256 was revoked or has expired. Returns no row for an unknown key.
struct FindKeyRejection: PostgresStatement {
    static let sql: SQL = """
        SELECT revoked_at IS NOT NULL
        FROM operator_keys
        WHERE sha256 = $1
        """

    let sha256: [UInt8]

    var parameters: [PostgresValue] { [.bytes(sha256)] }
    static func decode(_ row: PostgresRow) throws -> CredentialRejection {
        try row.decode { column in try column.next(Bool.self) ? .revokedKey : .expiredKey }
    }
}

/// Records when keys were last used, by their SHA-256. Keeps a later time that another server recorded.
struct RecordOperatorKeyUses: PostgresStatement {
    static let sql: SQL = """
        UPDATE operator_keys
        SET last_used_at = GREATEST(last_used_at, used_at)
        FROM unnest($1, $2) AS uses (digest, used_at)
        WHERE sha256 = digest
        """

    let uses: [[UInt8]: Date]

    var parameters: [PostgresValue] { [.byteas(Array(uses.keys)), .timestamps(Array(uses.values))] }
}

/// Inserts a key.
struct InsertOperatorKey: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO operator_keys (id, sha256, name, scopes, expires_at)
        VALUES ($1, $2, $3, $4, $5)
        """

    let id: UUID
    let sha256: [UInt8]
    let name: String
    let scopes: Set<Scope>
    /// `nil` for never.
    let expiresAt: Date?

    var parameters: [PostgresValue] {
        [.uuid(id), .bytes(sha256), .text(name), .texts(scopes.map(\.rawValue).sorted()), .timestamp(expiresAt)]
    }
}

/// Lists all keys, the oldest first.
struct ListOperatorKeys: PostgresStatement {
    static let sql: SQL = """
        SELECT id, name, scopes, created_at, expires_at, revoked_at, last_used_at
        FROM operator_keys
        ORDER BY created_at, name
        """

    static func decode(_ row: PostgresRow) throws -> OperatorKey {
        try row.decode { column in
            try OperatorKey(
                id: column.next(),
                name: column.next(),
                scopes: Set(names: column.next()),
                createdAt: column.next(),
                expiresAt: column.next(),
                revokedAt: column.next(),
                lastUsedAt: column.next()
            )
        }
    }
}

/// Revokes the key with an id, or those with a name, if they are not revoked yet.
struct RevokeOperatorKeys: PostgresStatement {
    static let sql: SQL = """
        UPDATE operator_keys
        SET revoked_at = now()
        WHERE (id = $1 OR name = $2)
            AND revoked_at IS NULL
        """

    let id: UUID?
    let name: String?

    var parameters: [PostgresValue] { [.uuid(id), .text(name)] }
}
