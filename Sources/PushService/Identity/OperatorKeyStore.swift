package import FoundationEssentials
package import Postgres

/// A key of an operator or a backend, without the key: that was shown once and is stored nowhere.
package struct OperatorKey: Sendable {
    package let name: String
    package let scopes: Set<Scope>
    package let createdAt: Date
    package let expiresAt: Date?
    package let revokedAt: Date?
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

    /// The scopes of the key that has this SHA-256, if it is in force.
    func scopes(ofKeyWith digest: [UInt8]) async throws -> Set<Scope>? {
        let rows = try await pool.read(
            """
            SELECT scopes
            FROM operator_keys
            WHERE sha256 = $1
                AND revoked_at IS NULL
                AND (expires_at IS NULL OR expires_at > now())
            """,
            [.bytes(digest)]
        )
        guard let row = rows.first else { return nil }
        return Self.scopes(try row.decode([String].self))
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
            SELECT name, scopes, created_at, expires_at, revoked_at
            FROM operator_keys
            ORDER BY created_at, name
            """
        )
        return try rows.map { row in
            let (name, scopes, createdAt, expiresAt, revokedAt) =
                try row.decode(String.self, [String].self, Date.self, Date?.self, Date?.self)
            return OperatorKey(
                name: name,
                scopes: Self.scopes(scopes),
                createdAt: createdAt,
                expiresAt: expiresAt,
                revokedAt: revokedAt
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
