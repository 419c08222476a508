import Crypto
import Endpoints
import FoundationEssentials
import Postgres

/// Stores the tokens of a refresh, if the row still has the refresh token that was used. Returns whether it did.
///
/// Without a new refresh token, the old one stays with its time of expiry, and its renewal is tried again when a tenth of
/// its remaining life has passed.
struct StoreRefresh: PostgresStatement {
    static let sql: SQL = """
        UPDATE accounts
        SET state = 'linked',
            reason = NULL,
            scopes = COALESCE(NULLIF($4, '{}'::text[]), scopes),
            tokens = $5,
            key_id = $6,
            refresh_token_sha256 = $7,
            access_token_ends_at = now() + make_interval(secs => $8),
            refresh_at = now() + make_interval(secs => $9),
            refresh_token_ends_at = COALESCE(now() + make_interval(secs => $10), refresh_token_ends_at),
            renew_at = COALESCE(
                now() + make_interval(secs => $11),
                GREATEST(renew_at, now() + (refresh_token_ends_at - now()) / 10)
            ),
            lease = CASE WHEN lease = $2 THEN NULL ELSE lease END,
            lease_ends_at = CASE WHEN lease = $2 THEN NULL ELSE lease_ends_at END,
            attempts = 0,
            retry_at = NULL,
            refreshed_at = now()
        WHERE user_id = $1
            AND refresh_token_sha256 = $3
        RETURNING true
        """

    let claim: RefreshClaim
    /// The digest of the refresh token that was used.
    let usedSHA256: [UInt8]
    /// The new tokens; with the refresh token that was used, if Kakao has issued no other.
    let issued: IssuedTokens
    let sealed: TokenVault.Sealed

    var parameters: [PostgresValue] {
        [
            .int64(claim.userID), .uuid(claim.lease), .bytes(usedSHA256), .texts(issued.scopes ?? []),
            .bytes(sealed.bytes), .text(sealed.keyID), .bytes(issued.tokens.refreshToken.map { SHA256Digest.of($0) }),
            .float64(issued.accessTokenLifetime), .float64(issued.secondsUntilRefresh),
            .float64(issued.refreshTokenLifetime),
            .float64(issued.refreshTokenLifetime.map { RenewalTime.secondsUntilRenewal(lifetime: $0) }),
        ]
    }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Stores that Kakao rejects the refresh token, if the row still has it. The tokens are kept: the response to an earlier
/// refresh with the same token may still be on its way, and links the account again.
struct RejectRefresh: PostgresStatement {
    static let sql: SQL = """
        UPDATE accounts
        SET state = 'login_required',
            reason = $4,
            lease = CASE WHEN lease = $2 THEN NULL ELSE lease END,
            lease_ends_at = CASE WHEN lease = $2 THEN NULL ELSE lease_ends_at END
        WHERE user_id = $1
            AND refresh_token_sha256 = $3
            AND state = 'linked'
        """

    let claim: RefreshClaim
    let usedSHA256: [UInt8]

    var parameters: [PostgresValue] {
        [.int64(claim.userID), .uuid(claim.lease), .bytes(usedSHA256), .text(LoginReason.rejected.rawValue)]
    }
}

/// Releases the lease of a refresh that failed for a time, after a pause. Its renewal then comes after those that are due
/// meanwhile, so that accounts that cannot be refreshed do not delay others. Changes nothing under another lease.
struct PostponeRefresh: PostgresStatement {
    static let sql: SQL = """
        UPDATE accounts
        SET lease = NULL,
            lease_ends_at = NULL,
            attempts = attempts + 1,
            retry_at = now() + make_interval(secs => $3),
            renew_at = GREATEST(renew_at, now() + make_interval(secs => $3))
        WHERE user_id = $1
            AND lease = $2
            AND state = 'linked'
        """

    let claim: RefreshClaim
    let pause: Duration

    var parameters: [PostgresValue] { [.int64(claim.userID), .uuid(claim.lease), .float64(pause.inSeconds)] }
}

/// Stores that the tokens of an account are its user's, if the row still has them.
struct VerifyAccount: PostgresStatement {
    static let sql: SQL = """
        UPDATE accounts
        SET is_verified = true
        WHERE user_id = $1
            AND refresh_token_sha256 = $2
        """

    let userID: Int64
    let refreshTokenSHA256: [UInt8]

    var parameters: [PostgresValue] { [.int64(userID), .bytes(refreshTokenSHA256)] }
}

/// Makes the access token of an account due for a refresh, whatever its lifetime, after a pause.
struct ExpireAccessToken: PostgresStatement {
    static let sql: SQL = """
        UPDATE accounts
        SET access_token_ends_at = now(),
            refresh_at = now(),
            retry_at = now() + make_interval(secs => $2)
        WHERE user_id = $1
            AND state = 'linked'
        """

    let userID: Int64
    let pause: Duration

    var parameters: [PostgresValue] { [.int64(userID), .float64(pause.inSeconds)] }
}
