import Crypto
import Endpoints
import Postgres

/// A login to store.
struct Login: Sendable {
    let userID: Int64
    let appKey: AppKeyKind
    let refreshedBy: RefreshingSide
    let issued: IssuedTokens
    /// Whether Kakao has issued the tokens to this server, and not to an app.
    let isVerified: Bool
}

extension AccountStore {
    /// Stores the tokens of a login in a transaction, and drops a pending unlink of the user, who has returned.
    ///
    /// - Returns: Whether the account is new.
    static func store(_ login: Login, _ vault: TokenVault, in transaction: PostgresTransaction) async throws -> Bool {
        _ = try await transaction.query(LockUser(userID: login.userID)) as [Void]
        _ = try await transaction.query(CancelUnlink(userID: login.userID)) as Int
        let statement = StoreLogin(login: login, sealed: vault.seal(login.issued.tokens, of: login.userID))
        return try await transaction.query(statement).first ?? false
    }

    /// Stores tokens that an app has obtained, unless an unlink of the user is pending. Returns whether they are stored.
    ///
    /// - Parameter record: The record for the audit log.
    func storeImport(_ login: Login, _ vault: TokenVault, recording record: AuditRecord?) async throws -> Bool {
        let statement = StoreLogin(login: login, sealed: vault.seal(login.issued.tokens, of: login.userID))
        return try await pool.withTransaction { transaction in
            _ = try await transaction.query(LockUser(userID: login.userID)) as [Void]
            let isUnlinked = try await transaction.query(FindPendingUnlink(userID: login.userID)).first != nil
            guard !isUnlinked else { return false }
            _ = try await transaction.query(statement) as [Bool]
            try await transaction.record(record)
            return true
        }
    }
}

/// Locks a user until the end of the transaction, as reports of departures do. Logins and unlinks of a user come one after
/// the other, and the second sees the first.
struct LockUser: PostgresStatement {
    static let sql: SQL = """
        SELECT pg_advisory_xact_lock(17, hashint8($1))
        """

    let userID: Int64

    var parameters: [PostgresValue] { [.int64(userID)] }
    static func decode(_ row: PostgresRow) throws {}
}

/// Drops the pending unlink of a user who has logged in again.
struct CancelUnlink: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM pending_unlinks
        WHERE user_id = $1
        """

    let userID: Int64

    var parameters: [PostgresValue] { [.int64(userID)] }
}

/// Finds whether an unlink of a user is pending.
struct FindPendingUnlink: PostgresStatement {
    static let sql: SQL = """
        SELECT true
        FROM pending_unlinks
        WHERE user_id = $1
        """

    let userID: Int64

    var parameters: [PostgresValue] { [.int64(userID)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Stores the tokens of a login. Returns whether the account is new.
struct StoreLogin: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO accounts AS account (
            user_id, state, app_key, refreshed_by, scopes, tokens, key_id, refresh_token_sha256, access_token_ends_at,
            refresh_at, refresh_token_ends_at, renew_at, is_verified
        )
        VALUES (
            $1, 'linked', $2, $3, $4, $5, $6, $7, now() + make_interval(secs => $8), now() + make_interval(secs => $9),
            now() + make_interval(secs => $10), now() + make_interval(secs => $11), $12
        )
        ON CONFLICT (user_id) DO UPDATE
        SET state = excluded.state,
            reason = NULL,
            app_key = excluded.app_key,
            refreshed_by = excluded.refreshed_by,
            scopes = excluded.scopes,
            tokens = excluded.tokens,
            key_id = excluded.key_id,
            refresh_token_sha256 = excluded.refresh_token_sha256,
            access_token_ends_at = excluded.access_token_ends_at,
            refresh_at = excluded.refresh_at,
            refresh_token_ends_at = excluded.refresh_token_ends_at,
            renew_at = excluded.renew_at,
            lease = NULL,
            lease_ends_at = NULL,
            attempts = 0,
            retry_at = NULL,
            linked_at = now(),
            refreshed_at = NULL,
            is_verified = excluded.is_verified
        RETURNING xmax = 0
        """

    let login: Login
    let sealed: TokenVault.Sealed

    var parameters: [PostgresValue] {
        let issued = login.issued
        return [
            .int64(login.userID), .text(login.appKey.rawValue), .text(login.refreshedBy.rawValue),
            .texts(issued.scopes ?? []), .bytes(sealed.bytes), .text(sealed.keyID),
            .bytes(issued.tokens.refreshToken.map { SHA256Digest.of($0) }), .float64(issued.accessTokenLifetime),
            .float64(issued.secondsUntilRefresh), .float64(issued.refreshTokenLifetime),
            .float64(issued.refreshTokenLifetime.map { RenewalTime.secondsUntilRenewal(lifetime: $0) }),
            .bool(login.isVerified),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// When refresh tokens are renewed ahead of time.
enum RenewalTime {
    /// The remaining life in seconds below which Kakao issues a new refresh token with a refresh: a month.
    private static let thresholdSeconds = 30.0 * 86_400

    /// Returns the time until the renewal of a new refresh token, in seconds: when a month is left, or half of its
    /// lifetime if that is shorter.
    static func secondsUntilRenewal(lifetime: Double) -> Double { lifetime - min(thresholdSeconds, lifetime / 2) }
}
