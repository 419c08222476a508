package import FoundationEssentials
package import Postgres

/// A key of an operator or a backend, without the key: that was shown once and is stored nowhere.
package struct OperatorKey: Sendable {
    package let name: String
    package let scopes: Set<Scope>
    package let createdAt: Date
    package let expiresAt: Date?
    package let revokedAt: Date?
    /// To about a minute; `nil` for never.
    package let lastUsedAt: Date?
}

/// The keys that `push-server keys` made.
package struct OperatorKeyStore: Sendable {
    /// What every key begins with that is made here, and no token of a user.
    private static let prefix = "kps_"

    private let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Whether it looks like a key that was made here.
    static func isKey(_ text: String) -> Bool {
        text.hasPrefix(prefix)
    }

    /// The scopes of the key that has this SHA-256 and how much longer it lasts, at most a second of it; `nil` if it is not in force.
    func validKey(_ digest: [UInt8]) async throws -> (scopes: Set<Scope>, remaining: Duration)? {
        let rows = try await pool.read(
            """
            SELECT scopes,
                extract(epoch FROM LEAST(expires_at, now() + interval '1 second') - now())::float8
            FROM operator_keys
            WHERE sha256 = $1
                AND revoked_at IS NULL
                AND (expires_at IS NULL OR expires_at > now())
            """,
            [.bytes(digest)]
        )
        guard let row = rows.first else { return nil }
        let (scopes, seconds) = try row.decode([String].self, Double.self)
        return (Self.scopes(scopes), .seconds(seconds))
    }

    /// Notes when keys were last used, by their SHA-256. What another server has noted stays where it is later.
    func recordUses(_ uses: [[UInt8]: Date]) async throws {
        let uses = Array(uses)
        _ = try await retryingDeadlocks {
            try await pool.write(
                """
                UPDATE operator_keys
                SET last_used_at = GREATEST(last_used_at, used_at)
                FROM unnest($1, $2) AS uses (digest, used_at)
                WHERE sha256 = digest
                """,
                [.byteas(uses.map(\.key)), .timestamps(uses.map(\.value))]
            )
        }
    }

    /// Makes a key and returns it: the only time that anybody sees it.
    ///
    /// - Parameters:
    ///   - name: Says whose it is.
    ///   - expiresAt: When it ends; `nil` for never.
    package func create(name: String, scopes: Set<Scope>, expiresAt: Date?) async throws -> String {
        let key = Self.prefix + RandomKey.hexadecimal(words: 4)
        _ = try await pool.write(
            """
            INSERT INTO operator_keys (sha256, name, scopes, expires_at)
            VALUES ($1, $2, $3, $4)
            """,
            [.bytes(SHA256Digest.of(key)), .text(name), .texts(scopes.map(\.rawValue).sorted()), .timestamp(expiresAt)]
        )
        return key
    }

    /// All keys, the oldest first.
    package func list() async throws -> [OperatorKey] {
        let rows = try await pool.read(
            """
            SELECT name, scopes, created_at, expires_at, revoked_at, last_used_at
            FROM operator_keys
            ORDER BY created_at, name
            """
        )
        return try rows.map { row in
            let (name, scopes, createdAt, expiresAt, revokedAt, lastUsedAt) =
                try row.decode(String.self, [String].self, Date.self, Date?.self, Date?.self, Date?.self)
            return OperatorKey(
                name: name,
                scopes: Self.scopes(scopes),
                createdAt: createdAt,
                expiresAt: expiresAt,
                revokedAt: revokedAt,
                lastUsedAt: lastUsedAt
            )
        }
    }

    /// Ends the keys of that name at once. Returns how many there were.
    package func revoke(name: String) async throws -> Int {
        let rows = try await pool.write(
            """
            UPDATE operator_keys
            SET revoked_at = now()
            WHERE name = $1
                AND revoked_at IS NULL
            """,
            [.text(name)]
        )
        return rows.affectedRows
    }

    private static func scopes(_ names: [String]) -> Set<Scope> {
        Set(names.compactMap(Scope.init(rawValue:)))
    }
}
