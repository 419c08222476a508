package import Postgres

/// A key that encrypted tokens in the database.
package struct StoredKey: Sendable {
    /// How the server can use a key with its settings.
    package enum Use: Sendable, Equatable {
        /// It encrypts and decrypts.
        case current
        /// It decrypts only.
        case decryption
        /// The settings lack the key.
        case missing
        /// The key is known, but the tokens of this user cannot be decrypted.
        case unreadable(userID: Int64)
    }

    /// An identifier of the key, which does not reveal it.
    package let id: String
    package let use: Use

    /// Returns the keys that encrypted the tokens in the database. Of each key, the tokens of one user are decrypted.
    ///
    /// - Throws: ``AccountsDisabled`` without `accounts.encryption_key`; ``PostgresError``.
    package static func all(pool: PostgresPool, _ settings: AccountSettings, appID: Int64?) async throws -> [StoredKey]
    {
        guard let vault = settings.vault(appID: appID) else { throw AccountsDisabled() }
        return try await pool.read(ListTokenSamples()).map { userID, sealed in
            StoredKey(id: sealed.keyID, use: use(of: sealed, of: userID, vault))
        }
    }

    private static func use(of sealed: TokenVault.Sealed, of userID: Int64, _ vault: TokenVault) -> Use {
        do throws(UnreadableTokens) {
            _ = try vault.open(sealed, of: userID)
            return sealed.keyID == vault.keyID ? .current : .decryption
        } catch {
            return error.isKeyMissing ? .missing : .unreadable(userID: userID)
        }
    }
}

/// Lists the tokens of one account for each key. Reads all accounts.
struct ListTokenSamples: PostgresStatement {
    static let sql: SQL = """
        SELECT account.user_id, account.tokens, account.key_id
        FROM (
            SELECT min(user_id) AS user_id
            FROM accounts
            WHERE tokens IS NOT NULL
            GROUP BY key_id
        ) AS sample
        JOIN accounts AS account ON account.user_id = sample.user_id
        ORDER BY account.key_id
        """

    static func decode(_ row: PostgresRow) throws -> (userID: Int64, sealed: TokenVault.Sealed) {
        try ListOtherKeys.decode(row)
    }
}
