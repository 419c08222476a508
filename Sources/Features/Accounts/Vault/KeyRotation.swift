package import Postgres

/// The encryption of all tokens under the current key, while servers use them.
package struct KeyRotation: Sendable {
    /// The number of accounts that one step reads.
    private static let accountsPerStep = 500

    private let pool: PostgresPool
    private let vault: TokenVault

    /// - Throws: ``AccountsDisabled`` without `accounts.encryption_key`.
    package init(pool: PostgresPool, _ settings: AccountSettings, appID: Int64?) throws {
        guard let vault = settings.vault(appID: appID) else { throw AccountsDisabled() }
        self.pool = pool
        self.vault = vault
    }

    /// The result of a rotation.
    package struct Result: Sendable {
        /// The accounts whose tokens are now encrypted under the current key, and were not before.
        package var changed = 0
        /// The users whose tokens this command cannot decrypt.
        package var unreadable: [Int64] = []
    }

    /// Encrypts the tokens of all accounts under the current key, in small steps. Tokens that change meanwhile are
    /// encrypted by the server that changes them.
    ///
    /// - Parameter report: Called after each step.
    package func run(report: (Result) -> Void) async throws -> Result {
        var result = Result()
        var cursor: Int64 = 0
        while true {
            let page = try await pool.read(
                ListOtherKeys(keyID: vault.keyID, after: cursor, limit: Self.accountsPerStep)
            )
            guard let last = page.last else { return result }
            cursor = last.userID
            var changes: [Reencryption] = []
            for account in page {
                do throws(UnreadableTokens) {
                    let tokens = try vault.open(account.sealed, of: account.userID)
                    changes.append(
                        Reencryption(
                            userID: account.userID,
                            old: account.sealed,
                            new: vault.seal(tokens, of: account.userID)
                        )
                    )
                } catch {
                    result.unreadable.append(account.userID)
                }
            }
            result.changed += try await pool.write(StoreReencryption(changes: changes))
            report(result)
        }
    }
}

/// Accounts need a key for their tokens.
package struct AccountsDisabled: Error, CustomStringConvertible {
    package var description: String { "Set accounts.encryption_key, which encrypts the tokens, and kakao.app_id." }
}

/// Tokens that are re-encrypted under the current key.
struct Reencryption: Sendable {
    let userID: Int64
    let old: TokenVault.Sealed
    let new: TokenVault.Sealed
}

/// Lists accounts whose tokens are encrypted under another key, in the order of their users.
struct ListOtherKeys: PostgresStatement {
    static let sql: SQL = """
        SELECT user_id, tokens, key_id
        FROM accounts
        WHERE user_id > $2
            AND tokens IS NOT NULL
            AND key_id <> $1
        ORDER BY user_id
        LIMIT $3
        """

    let keyID: String
    let after: Int64
    let limit: Int

    var parameters: [PostgresValue] { [.text(keyID), .int64(after), .int64(Int64(limit))] }
    static func decode(_ row: PostgresRow) throws -> (userID: Int64, sealed: TokenVault.Sealed) {
        try row.decode { try ($0.next(), TokenVault.Sealed(bytes: $0.next(), keyID: $0.next())) }
    }
}

/// Stores re-encrypted tokens, if they have not changed since.
struct StoreReencryption: PostgresStatement {
    static let sql: SQL = """
        WITH held AS (
            SELECT account.user_id, change.tokens, change.key_id
            FROM accounts AS account
            JOIN unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::text[]) AS change (user_id, old, tokens, key_id)
                ON account.user_id = change.user_id
                AND account.tokens = change.old
            ORDER BY account.user_id
            FOR UPDATE OF account
        )
        UPDATE accounts AS account
        SET tokens = held.tokens,
            key_id = held.key_id
        FROM held
        WHERE account.user_id = held.user_id
        """

    let changes: [Reencryption]

    var parameters: [PostgresValue] {
        [
            .int64s(changes.map(\.userID)), .byteas(changes.map(\.old.bytes)), .byteas(changes.map(\.new.bytes)),
            .texts(changes.map(\.new.keyID)),
        ]
    }
}
