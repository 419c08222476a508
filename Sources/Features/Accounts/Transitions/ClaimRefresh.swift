import Endpoints
import FoundationEssentials
import Postgres

/// The claim to refresh the tokens of an account.
struct RefreshClaim: Sendable {
    let userID: Int64
    let lease: UUID
    let appKey: AppKeyKind
    let sealed: TokenVault.Sealed
    /// The failed refreshes since the last one that succeeded.
    let attempts: Int
    /// Whether the refresh token is known to be this user's; not after an import.
    let isVerified: Bool
}

extension RefreshClaim {
    fileprivate static let columns: SQL = "account.user_id, lease, app_key, tokens, key_id, attempts, is_verified"

    /// Decodes ``columns``.
    fileprivate init(_ column: inout ColumnCursor) throws {
        try self.init(
            userID: column.next(),
            lease: column.next(),
            appKey: column.next(),
            sealed: TokenVault.Sealed(bytes: column.next(), keyID: column.next()),
            attempts: Int(column.next(Int32.self)),
            isVerified: column.next()
        )
    }
}

/// Leases an account to refresh its tokens, if they are still those that the caller has read, no other server refreshes
/// them, and no pause after a failure remains.
struct ClaimRefresh: PostgresStatement {
    static let sql: SQL = """
        UPDATE accounts AS account
        SET lease = $3,
            lease_ends_at = now() + make_interval(secs => $4)
        WHERE user_id = $1
            AND tokens = $2
            AND state = 'linked'
            AND refreshed_by = 'server'
            AND refresh_token_sha256 IS NOT NULL
            AND (lease IS NULL OR lease_ends_at <= now())
            AND (retry_at IS NULL OR retry_at <= now())
        RETURNING \(RefreshClaim.columns)
        """

    let userID: Int64
    let tokens: [UInt8]
    let duration: Duration

    var parameters: [PostgresValue] {
        [.int64(userID), .bytes(tokens), .uuid(.v7()), .float64(duration.inSeconds)]
    }
    static func decode(_ row: PostgresRow) throws -> RefreshClaim { try row.decode { try RefreshClaim(&$0) } }
}

/// Leases up to `limit` accounts whose refresh tokens are to be renewed, those that expire first before others. Accounts
/// that this server lacks a key for are left to others.
struct ClaimRenewals: PostgresStatement {
    static let sql: SQL = """
        WITH due AS (
            SELECT user_id
            FROM accounts
            WHERE state = 'linked'
                AND refreshed_by = 'server'
                AND renew_at <= now()
                AND (lease IS NULL OR lease_ends_at <= now())
                AND (retry_at IS NULL OR retry_at <= now())
                AND key_id = ANY ($3::text[])
                AND app_key = ANY ($4::text[])
            ORDER BY renew_at
            LIMIT $1
            FOR UPDATE SKIP LOCKED
        )
        UPDATE accounts AS account
        SET lease = gen_random_uuid(),
            lease_ends_at = now() + make_interval(secs => $2)
        FROM due
        WHERE account.user_id = due.user_id
        RETURNING \(RefreshClaim.columns)
        """

    let limit: Int
    let duration: Duration
    /// The ids of the keys that decrypt tokens here.
    let keyIDs: [String]
    /// The app keys that are set here.
    let appKeys: [AppKeyKind]

    var parameters: [PostgresValue] {
        [
            .int64(Int64(limit)), .float64(duration.inSeconds), .texts(keyIDs), .texts(appKeys.map(\.rawValue)),
        ]
    }
    static func decode(_ row: PostgresRow) throws -> RefreshClaim { try row.decode { try RefreshClaim(&$0) } }
}
