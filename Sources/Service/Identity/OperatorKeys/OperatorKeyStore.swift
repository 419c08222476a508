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
    /// The name of the key that created this one, or of the user on the server's machine.
    package let createdBy: String?
    /// The id of the key that created this one; zeros for the key in the settings, `nil` for a command.
    package let createdByKey: UUID?
    package let expiresAt: Date?
    package let revokedAt: Date?
    /// The time of the last use, to about a minute; `nil` for never.
    package let lastUsedAt: Date?
}

/// The operator keys in PostgreSQL, created by `POST /v1/keys` and `push-server keys`.
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

    /// Creates a key for the command `keys create`, and returns it. It cannot be shown again.
    ///
    /// - Parameters:
    ///   - name: A name that says to whom the key belongs.
    ///   - expiresAt: The time at which the key expires; `nil` for never.
    package func create(name: String, scopes: Set<Scope>, expiresAt: Date?) async throws -> String {
        let new = NewOperatorKey(name: name, scopes: scopes, expiresAt: expiresAt)
        let record = AuditRecord(ofCommandLike: "createKey", object: new.id.lowercased)
        _ = try await pool.write(InsertOperatorKey(key: new), recording: record)
        return new.secret
    }

    /// Creates a key, unless an earlier request with the same idempotency key has created one.
    ///
    /// - Parameter record: The record for the audit log.
    /// - Throws: ``Problem`` 422 if another request has used the idempotency key; ``PostgresError``.
    package func create(_ new: NewOperatorKey, recording record: AuditRecord?) async throws -> OperatorKeyCreation {
        if let key = try await pool.write(InsertOperatorKey(key: new), recording: record).first {
            return OperatorKeyCreation(key: key, secret: new.secret)
        }
        let earlier = try await pool.read(FindOperatorKeyOfRequest(new: new)).first ?? nil
        guard let earlier else { throw Idempotency.keyInUse }
        return OperatorKeyCreation(key: earlier, secret: nil)
    }

    /// Returns keys in the order of their ids, the oldest first.
    ///
    /// - Parameters:
    ///   - id: The key after which the list begins; `nil` for the first.
    ///   - limit: The maximum number of keys; `nil` for all.
    package func list(after id: UUID? = nil, limit: Int? = nil) async throws -> [OperatorKey] {
        try await pool.read(ListOperatorKeys(after: id, limit: limit))
    }

    /// Revokes the key with an id at once. Returns whether there was such a key that was not revoked yet.
    package func revoke(id: UUID) async throws -> Bool {
        let record = AuditRecord(ofCommandLike: "deleteKey", object: id.lowercased)
        return try await pool.write(RevokeOperatorKey(id: id), recording: record) > 0
    }

    /// Revokes the keys with a name one after the other, each with a record of its own. Returns their number. After an error, those that
    /// remain can be revoked by calling this again.
    package func revoke(name: String) async throws -> Int {
        var count = 0
        for key in try await list() where key.name == name && key.revokedAt == nil {
            if try await revoke(id: key.id) { count += 1 }
        }
        return count
    }

    /// The outcome of a request to delete a key.
    package enum Deletion: Sendable {
        case deleted
        /// There is no such key, or it is deleted.
        case unknown
        /// It is the last valid key with the scope `admin`.
        case lastAdmin
    }

    /// Revokes the key with an id at once, unless it is the last valid one with the scope `admin`. Of concurrent deletions of
    /// the last keys, one is refused.
    ///
    /// - Parameter record: The record for the audit log.
    package func delete(id: UUID, recording record: AuditRecord?) async throws -> Deletion {
        if try await pool.write(DeleteOperatorKey(id: id), recording: record) > 0 { return .deleted }
        return try await pool.read(OperatorKeyIsRevocable(id: id)).first == true ? .lastAdmin : .unknown
    }
}

extension OperatorKeyStore {
    /// The result of a look-up.
    enum Found {
        /// The key, or the key of the session, and for how long it may be cached.
        case valid(KeyIdentity, Duration)
        /// A session that has ended, or whose key is no longer valid.
        case ended
        case unknown
    }

    /// Looks up a key or session.
    func find(_ credential: StoredCredential) async throws -> Found {
        switch credential {
        case .key(let digest):
            guard let (key, remaining) = try await pool.read(FindValidOperatorKey(sha256: digest)).first else {
                return .unknown
            }
            return .valid(key, remaining)
        case .session(let digest, let setting):
            let rows = try await pool.read(FindSession(sha256: digest, settingDigest: setting))
            guard let row = rows.first else { return .unknown }
            guard let (key, remaining) = row else { return .ended }
            return .valid(key, remaining)
        }
    }

    /// Returns why the key with a SHA-256 is not valid.
    func rejection(ofKeyWith sha256: [UInt8]) async throws -> CredentialRejection {
        try await pool.read(FindKeyRejection(sha256: sha256)).first ?? .unknownKey
    }
}

extension Set<Scope> {
    /// The scopes with these names, without the unknown ones.
    init(names: [String]) {
        self.init(names.compactMap(Scope.init(rawValue:)))
    }
}

extension OperatorKey {
    /// Reads the columns `id` to `last_used_at`, in the order of the properties.
    fileprivate init(_ column: inout ColumnCursor) throws {
        try self.init(
            id: column.next(),
            name: column.next(),
            scopes: Set(names: column.next()),
            createdAt: column.next(),
            createdBy: column.next(),
            createdByKey: column.next(),
            expiresAt: column.next(),
            revokedAt: column.next(),
            lastUsedAt: column.next()
        )
    }
}

// MARK: Statements

/// Finds what the valid key with this SHA-256 allows, and for how long that may be cached: until the key expires, but for at
/// most a second. Returns no row if there is no such key, or it has expired or been revoked.
struct FindValidOperatorKey: PostgresStatement {
    static let sql: SQL = """
        SELECT id, name, sha256, scopes,
            extract(epoch FROM LEAST(expires_at, now() + interval '1 second') - now())::float8
        FROM operator_keys
        WHERE sha256 = $1
            AND revoked_at IS NULL
            AND (expires_at IS NULL OR expires_at > now())
        """

    let sha256: [UInt8]

    var parameters: [PostgresValue] { [.bytes(sha256)] }
    static func decode(_ row: PostgresRow) throws -> (key: KeyIdentity, remaining: Duration) {
        try row.decode { column in
            let key = try KeyIdentity(
                id: column.next(),
                name: column.next(),
                digest: column.next(),
                scopes: Set(names: column.next())
            )
            return (key, .seconds(try column.next(Double.self)))
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

/// Records when keys were last used, by their SHA-256. Keeps a later time that another server recorded. The rows are locked in
/// the order of ``DeleteOperatorKey``, so that the statements do not deadlock.
struct RecordOperatorKeyUses: PostgresStatement {
    static let sql: SQL = """
        WITH used AS MATERIALIZED (
            SELECT id, used_at
            FROM operator_keys
            JOIN unnest($1, $2) AS uses (digest, used_at) ON sha256 = digest
            ORDER BY id
            FOR NO KEY UPDATE OF operator_keys
        )
        UPDATE operator_keys
        SET last_used_at = GREATEST(last_used_at, used_at)
        FROM used
        WHERE operator_keys.id = used.id
        """

    let uses: [[UInt8]: Date]

    var parameters: [PostgresValue] { [.byteas(Array(uses.keys)), .timestamps(Array(uses.values))] }
}

/// Inserts a key, unless its creator has used the idempotency key. Returns the key if it is inserted.
struct InsertOperatorKey: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO operator_keys (
            id, sha256, name, scopes, created_by, created_by_key, idempotency_key, request_sha256, expires_at
        )
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT (created_by_key, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
        RETURNING id, name, scopes, created_at, created_by, created_by_key, expires_at, revoked_at, last_used_at
        """

    let key: NewOperatorKey

    var parameters: [PostgresValue] {
        [
            .uuid(key.id), .bytes(SHA256Digest.of(key.secret)), .text(key.name),
            .texts(key.scopes.map(\.rawValue).sorted()), .text(key.createdBy), .uuid(key.createdByKey),
            .text(key.idempotency?.key), .bytes(key.idempotency?.digest), .timestamp(key.expiresAt),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> OperatorKey { try row.decode { try OperatorKey(&$0) } }
}

/// Finds the key that an earlier request with the same idempotency key has created; `nil` for another request.
struct FindOperatorKeyOfRequest: PostgresStatement {
    static let sql: SQL = """
        SELECT id, name, scopes, created_at, created_by, created_by_key, expires_at, revoked_at, last_used_at,
            request_sha256 = $3
        FROM operator_keys
        WHERE (created_by_key, idempotency_key) = ($1, $2)
        """

    let new: NewOperatorKey

    var parameters: [PostgresValue] {
        [.uuid(new.createdByKey), .text(new.idempotency?.key), .bytes(new.idempotency?.digest)]
    }

    static func decode(_ row: PostgresRow) throws -> OperatorKey? {
        try row.decode { column in
            let key = try OperatorKey(&column)
            return try column.next(Bool.self) ? key : nil
        }
    }
}

/// Lists keys in the order of their ids, which begin with the time of creation.
struct ListOperatorKeys: PostgresStatement {
    static let sql: SQL = """
        SELECT id, name, scopes, created_at, created_by, created_by_key, expires_at, revoked_at, last_used_at
        FROM operator_keys
        WHERE $1::uuid IS NULL
            OR id > $1
        ORDER BY id
        LIMIT $2
        """

    let after: UUID?
    /// `nil` for all.
    let limit: Int?

    var parameters: [PostgresValue] { [.uuid(after), .int64(limit.map(Int64.init))] }

    static func decode(_ row: PostgresRow) throws -> OperatorKey { try row.decode { try OperatorKey(&$0) } }
}

/// Revokes the key with an id, if it is not revoked yet.
struct RevokeOperatorKey: PostgresStatement {
    static let sql: SQL = """
        UPDATE operator_keys
        SET revoked_at = now()
        WHERE id = $1
            AND revoked_at IS NULL
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
}

/// Revokes a key that is not revoked yet, unless it is the last valid one with the scope `admin`. All such keys are locked, so
/// that concurrent deletions wait for each other and count what is left.
struct DeleteOperatorKey: PostgresStatement {
    static let sql: SQL = """
        WITH admin AS MATERIALIZED (
            SELECT id
            FROM operator_keys
            WHERE 'admin' = ANY (scopes)
                AND revoked_at IS NULL
                AND (expires_at IS NULL OR expires_at > now())
            ORDER BY id
            FOR NO KEY UPDATE
        )
        UPDATE operator_keys
        SET revoked_at = now()
        WHERE id = $1
            AND revoked_at IS NULL
            AND ((SELECT count(*) FROM admin) > 1 OR id NOT IN (SELECT id FROM admin))
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
}

/// Returns whether there is a key with an id that is not revoked; no row without such a key.
struct OperatorKeyIsRevocable: PostgresStatement {
    static let sql: SQL = """
        SELECT revoked_at IS NULL
        FROM operator_keys
        WHERE id = $1
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }

    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}
