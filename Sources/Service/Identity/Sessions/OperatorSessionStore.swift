import Crypto
package import Endpoints
package import FoundationEssentials
package import Postgres

/// The sessions of the operator's page in PostgreSQL.
package struct OperatorSessionStore: Sendable {
    private let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Starts a session, and returns the value of its cookie, which is shown once and stored nowhere. The oldest sessions of the key
    /// end if there are too many.
    ///
    /// - Parameters:
    ///   - key: The key that the operator has entered.
    ///   - digest: The SHA-256 of the key.
    ///   - cookie: The SHA-256 of the cookie that the browser has had, whose session ends.
    ///   - address: The address of the operator.
    ///   - record: The record for the audit log.
    package func start(
        with key: KeyIdentity,
        _ digest: [UInt8],
        replacing cookie: [UInt8]?,
        from address: String,
        recording record: AuditRecord?
    ) async throws -> String {
        let secret = RandomKey.hexadecimal(words: 4)
        _ = try await pool.write(
            InsertSession(
                id: .v7(),
                sha256: SHA256Digest.of(secret),
                keyID: key.id,
                keyDigest: digest,
                replaced: cookie ?? [],
                address: address
            ),
            recording: record
        )
        return secret
    }

    /// Ends a session of a key. Every server rejects it within a second.
    ///
    /// - Returns: Whether there was such a session.
    package func end(_ id: UUID, ofKey keyID: UUID, recording record: AuditRecord?) async throws -> Bool {
        try await pool.write(EndSession(id: id, keyID: keyID), recording: record) > 0
    }

    /// Returns the present sessions of a key, the oldest first.
    package func list(ofKey keyID: UUID) async throws -> [OperatorSession] {
        try await pool.read(ListSessions(keyID: keyID))
    }
}

extension OperatorSession {
    fileprivate static let columns: SQL = """
        session.id, session.started_at, session.ends_at, session.started_at > now() - interval '5 minutes', session.address
        """

    /// Reads ``columns``.
    fileprivate init(_ column: inout ColumnCursor) throws {
        try self.init(
            id: column.next(),
            startedAt: column.next(),
            endsAt: column.next(),
            isRecent: column.next(),
            address: column.next()
        )
    }
}

// MARK: Statements

/// Stores a session, and ends the oldest ones of its key beyond the limit.
struct InsertSession: PostgresStatement {
    /// The number of sessions of a key at a time.
    static let maximumSessions: Int32 = 20

    static let sql: SQL = """
        WITH surplus AS (
            DELETE FROM operator_sessions
            WHERE sha256 = $8
                OR sha256 IN (
                    SELECT sha256
                    FROM operator_sessions
                    WHERE key_id = $3
                        AND ends_at > now()
                    ORDER BY started_at DESC
                    OFFSET $7 - 1
                )
        )
        INSERT INTO operator_sessions (id, sha256, key_id, key_sha256, address, ends_at)
        VALUES ($1, $2, $3, $4, $5, now() + make_interval(secs => $6))
        """

    let id: UUID
    let sha256: [UInt8]
    let keyID: UUID
    let keyDigest: [UInt8]
    /// The SHA-256 of the cookie of a session that the new one replaces; empty for none.
    let replaced: [UInt8]
    let address: String

    var parameters: [PostgresValue] {
        [
            .uuid(id), .bytes(sha256), .uuid(keyID), .bytes(keyDigest), .text(address),
            .float64(Double(SessionCookie.lifetime.components.seconds)), .int32(Self.maximumSessions),
            .bytes(replaced),
        ]
    }
}

/// Finds the session whose cookie has this SHA-256, with what its key allows. A session that has ended has a row as well, until it is
/// deleted: its browser is not one that guesses.
struct FindSession: PostgresStatement {
    static let sql: SQL = """
        SELECT \(OperatorSession.columns),
            key.id, key.name, key.scopes, key.sha256,
            extract(epoch FROM LEAST(session.ends_at, key.expires_at, now() + interval '1 second') - now())::float8
        FROM operator_sessions AS session
        LEFT JOIN (
            SELECT id, name, scopes, sha256, expires_at
            FROM operator_keys
            WHERE revoked_at IS NULL
                AND (expires_at IS NULL OR expires_at > now())
            UNION ALL
            SELECT $2, $3, ARRAY['admin'], $4, NULL
        ) AS key ON key.sha256 = session.key_sha256
            AND session.ends_at > now()
        WHERE session.sha256 = $1
        """

    let sha256: [UInt8]
    /// The SHA-256 of the key in the settings.
    let settingDigest: [UInt8]

    var parameters: [PostgresValue] {
        [.bytes(sha256), .uuid(KeyIdentity.setting.id), .text(KeyIdentity.setting.name), .bytes(settingDigest)]
    }

    /// The key of the session, and for how long it may be cached; `nil` if it has ended, or its key is no longer valid.
    static func decode(_ row: PostgresRow) throws -> (key: KeyIdentity, remaining: Duration)? {
        try row.decode { column in
            let session = try OperatorSession(&column)
            let id = try column.next(UUID?.self)
            let name = try column.next(String?.self)
            let scopes = try column.next([String]?.self)
            let digest = try column.next([UInt8]?.self)
            let remaining = try column.next(Double.self)
            guard let id, let name, let scopes, let digest else { return nil }
            let isSetting = id == KeyIdentity.setting.id
            let key = KeyIdentity(
                id: id,
                name: name,
                digest: isSetting ? [] : digest,
                scopes: Set(names: scopes),
                session: session
            )
            return (key, .seconds(remaining))
        }
    }
}

/// Ends a session of a key at once. Its row stays until ``DeleteOldSessions``.
struct EndSession: PostgresStatement {
    static let sql: SQL = """
        UPDATE operator_sessions
        SET ends_at = now()
        WHERE id = $1
            AND key_id = $2
            AND ends_at > now()
        """

    let id: UUID
    let keyID: UUID

    var parameters: [PostgresValue] { [.uuid(id), .uuid(keyID)] }
}

/// Lists the present sessions of a key, the oldest first.
struct ListSessions: PostgresStatement {
    static let sql: SQL = """
        SELECT \(OperatorSession.columns)
        FROM operator_sessions AS session
        WHERE key_id = $1
            AND ends_at > now()
        ORDER BY started_at
        """

    let keyID: UUID

    var parameters: [PostgresValue] { [.uuid(keyID)] }
    static func decode(_ row: PostgresRow) throws -> OperatorSession { try row.decode { try OperatorSession(&$0) } }
}

/// Deletes sessions that ended more than a day ago.
package struct DeleteOldSessions: PostgresStatement {
    package static let sql: SQL = """
        DELETE FROM operator_sessions
        WHERE sha256 IN (
            SELECT sha256
            FROM operator_sessions
            WHERE ends_at < now() - interval '1 day'
            LIMIT $1
        )
        """

    let limit: Int

    package init(limit: Int) { self.limit = limit }

    package var parameters: [PostgresValue] { [.int32(Int32(limit))] }
}
