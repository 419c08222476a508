import FoundationEssentials
import Postgres

/// The accounts in PostgreSQL. The statements that change them are in `Transitions`.
final class AccountStore: Sendable {
    let pool: PostgresPool
    private let lookUps: StatementCoalescer<LookUpTokens>

    init(pool: PostgresPool) {
        self.pool = pool
        lookUps = StatementCoalescer(pool: pool, access: .read, maximumItems: 64, concurrency: 2) {
            LookUpTokens(userIDs: $0)
        }
    }

    /// Returns the tokens of an account; `nil` if there is no account. Concurrent look-ups share a statement.
    func storedTokens(of userID: Int64) async throws -> StoredTokens? {
        try await lookUps.submit(userID)
    }

    /// Leases an account to refresh its tokens. Returns `nil` if they have changed since they were read, another server
    /// refreshes them, or a pause after a failure remains.
    func claim(_ stored: StoredTokens, for lease: Duration) async throws -> RefreshClaim? {
        guard let sealed = stored.sealed else { return nil }
        return try await pool.write(ClaimRefresh(userID: stored.userID, tokens: sealed.bytes, duration: lease)).first
    }
}

/// The tokens of an account as they are stored, and what a refresh depends on.
struct StoredTokens: Sendable {
    let userID: Int64
    let state: AccountState
    let reason: String?
    let refreshedBy: RefreshingSide
    let appKey: AppKeyKind
    let scopes: [String]
    /// `nil` if the tokens were deleted.
    let sealed: TokenVault.Sealed?
    let accessTokenEndsAt: Date?
    /// The seconds until the access token expires; 0 if it has expired.
    let secondsLeft: Double
    /// Whether the access token is refreshed before it is used.
    let isRefreshDue: Bool
    let hasRefreshToken: Bool
    /// The seconds until the next refresh may be tried after a failure; 0 if one may.
    let pauseSeconds: Double
    /// Whether a server refreshes the tokens now.
    let isLeased: Bool
    /// The seconds since Kakao issued the access token.
    let secondsSinceIssue: Double
    /// Whether the access token is known to be the user's: not after the first refresh of imported tokens, until Kakao has
    /// said so.
    let isTrusted: Bool
}

// MARK: Statements

/// Looks up the tokens of accounts.
struct LookUpTokens: CoalescedStatement {
    typealias Item = Int64

    static let sql: SQL = """
        SELECT place, user_id, state, reason, refreshed_by, app_key, scopes, tokens, key_id, access_token_ends_at,
            COALESCE(GREATEST(extract(epoch FROM access_token_ends_at - now()), 0), 0)::float8,
            COALESCE(refresh_at <= now(), true), refresh_token_sha256 IS NOT NULL,
            COALESCE(GREATEST(extract(epoch FROM retry_at - now()), 0), 0)::float8,
            COALESCE(lease_ends_at > now(), false),
            extract(epoch FROM now() - GREATEST(linked_at, refreshed_at))::float8, is_verified OR refreshed_at IS NULL
        FROM unnest($1::bigint[]) WITH ORDINALITY AS asked (asked_id, place)
        JOIN accounts ON user_id = asked_id
        """

    let userIDs: [Int64]

    var parameters: [PostgresValue] { [.int64s(userIDs)] }

    static func decode(_ row: PostgresRow) throws -> (place: Int, StoredTokens) {
        try row.decode { column in
            let place = try Int(column.next(Int64.self))
            let tokens = try StoredTokens(
                userID: column.next(),
                state: column.next(),
                reason: column.next(),
                refreshedBy: column.next(),
                appKey: column.next(),
                scopes: column.next(),
                sealed: TokenVault.Sealed(storedBytes: column.next(), keyID: column.next()),
                accessTokenEndsAt: column.next(),
                secondsLeft: column.next(),
                isRefreshDue: column.next(),
                hasRefreshToken: column.next(),
                pauseSeconds: column.next(),
                isLeased: column.next(),
                secondsSinceIssue: column.next(),
                isTrusted: column.next()
            )
            return (place, tokens)
        }
    }

    static func outputs(_ rows: PostgresRows, count: Int) throws -> [StoredTokens?] {
        var outputs = [StoredTokens?](repeating: nil, count: count)
        for row in rows {
            let (place, tokens) = try decode(row)
            if outputs.indices.contains(place - 1) { outputs[place - 1] = tokens }
        }
        return outputs
    }
}

/// Finds an account.
struct FindAccount: PostgresStatement {
    static let sql: SQL = """
        SELECT \(Account.columns)
        FROM account_summaries AS account
        WHERE user_id = $1
        """

    let userID: Int64

    var parameters: [PostgresValue] { [.int64(userID)] }
    static func decode(_ row: PostgresRow) throws -> Account { try row.decode { try Account(&$0) } }
}

/// Lists accounts in the order of their users.
struct ListAccounts: PostgresStatement {
    static let sql: SQL = """
        SELECT \(Account.columns)
        FROM account_summaries AS account
        WHERE user_id > $1
            AND ($2::text IS NULL OR state = $2)
            AND ($3::timestamptz IS NULL OR refresh_token_ends_at < $3)
        ORDER BY user_id
        LIMIT $4
        """

    /// Only accounts in this state.
    let state: AccountState?
    /// Only accounts whose refresh token expires before this time.
    let endsBefore: Date?
    /// The last user of the previous page.
    let after: Int64?
    let limit: Int

    var parameters: [PostgresValue] {
        [.int64(after ?? 0), .text(state?.rawValue), .timestamp(endsBefore), .int64(Int64(limit))]
    }
    static func decode(_ row: PostgresRow) throws -> Account { try row.decode { try Account(&$0) } }
}

extension TokenVault.Sealed {
    /// `nil` for tokens that were deleted.
    fileprivate init?(storedBytes: [UInt8]?, keyID: String?) {
        guard let storedBytes, let keyID else { return nil }
        self.init(bytes: storedBytes, keyID: keyID)
    }
}

extension Account {
    /// The columns of `account_summaries` that ``init(_:)`` decodes.
    static let columns: SQL = """
        account.user_id, account.state, account.reason, account.app_key, account.refreshed_by, account.scopes,
            account.access_token_ends_at, account.refresh_token_ends_at, account.created_at, account.linked_at, account.refreshed_at
        """

    /// Decodes ``columns``.
    init(_ column: inout ColumnCursor) throws {
        try self.init(
            userID: column.next(),
            state: column.next(),
            reason: column.next(),
            appKey: column.next(),
            refreshedBy: column.next(),
            scopes: column.next(),
            accessTokenEndsAt: column.next(),
            refreshTokenEndsAt: column.next(),
            createdAt: column.next(),
            linkedAt: column.next(),
            refreshedAt: column.next()
        )
    }
}
