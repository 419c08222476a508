import Crypto
import Endpoints
import FoundationEssentials
import Postgres
import Runtime

/// The results of logins, which PostgreSQL keeps for a minute under the digest of a ticket or of an authorization code; and
/// the logins in browsers that have ended.
struct LoginResultStore: Sendable {
    /// The time for which a ticket can be redeemed, and a code sent again.
    static let lifetime = Duration.seconds(60)
    /// The time for which a code is claimed. It exceeds the time for the calls to Kakao and for storing the tokens.
    private static let claimLifetime = Duration.seconds(180)
    /// The time for which an ended login is known: longer than its cookie is valid, also if the clocks of servers differ.
    private static let loginLifetime = LoginCookie.lifetime + .seconds(60)
    /// The number of attempts to claim a code whose connections are lost.
    private static let claimAttempts = 4
    private static let claimDelay = RetryDelay(first: .milliseconds(100), longest: .seconds(1))

    let pool: PostgresPool
    let vault: TokenVault

    /// The state of an authorization code.
    enum KnownCode: Sendable {
        /// No request has sent the code before. It is claimed now.
        case new(claim: UUID)
        /// Another request is exchanging the code.
        case pending
        /// The result of an earlier request, as JSON.
        case exchanged([UInt8])
        /// A request with another operator key, or with other parameters, has sent the code.
        case foreign
    }

    /// Claims an authorization code, unless another request has.
    ///
    /// - Parameter request: The digest of the operator key and of the other parameters of the request.
    func claim(code: String, request: [UInt8]) async throws -> KnownCode {
        try await claim(code, request: request, for: Self.claimLifetime)
    }

    /// Ends a login in a browser. Returns `false` if it has ended before.
    ///
    /// - Parameter id: The login. No code and no ticket has the space in its key.
    func end(login id: String) async throws -> Bool {
        let key = "login \(id)"
        guard case .new = try await claim(key, request: SHA256Digest.of(key), for: Self.loginLifetime) else {
            return false
        }
        return true
    }

    private func claim(_ key: String, request: [UInt8], for lifetime: Duration) async throws -> KnownCode {
        let sha256 = SHA256Digest.of(key)
        let claim = ClaimLoginCode(sha256: sha256, request: request, claim: UUID(), lifetime: lifetime)
        // A claim without a response may have been committed. Repeated, it is found to be this request's own.
        let rows = try await Self.claimDelay.retrying(
            atMost: Self.claimAttempts,
            on: pool.loop,
            attempt: { try await pool.write(claim) },
            while: { (error: PostgresError) in error.code == .connectionLost }
        )
        guard let (isNew, owner, result) = rows.first else { return .pending }
        if isNew { return .new(claim: claim.claim) }
        guard owner == request else { return .foreign }
        guard let result else { return .pending }
        guard let json = vault.open(result, for: Self.purpose(sha256)) else { return .foreign }
        return .exchanged(json)
    }

    /// Releases the claim of a code whose exchange failed, so that it can be sent again.
    func release(code: String, claim: UUID) async throws {
        try await pool.write(ReleaseLoginCode(sha256: SHA256Digest.of(code), claim: claim))
    }

    /// Returns the statement that stores the result of a ticket or, if it is still claimed, of a code.
    ///
    /// - Parameters:
    ///   - key: The ticket or the code.
    ///   - request: The digest that the code was claimed with; `nil` for a ticket, as is `claim`.
    func storing(_ json: [UInt8], of key: String, request: [UInt8]? = nil, claim: UUID? = nil) -> StoreLoginResult {
        let sha256 = SHA256Digest.of(key)
        return StoreLoginResult(
            sha256: sha256,
            request: request,
            claim: claim,
            result: vault.seal(json, for: Self.purpose(sha256)),
            lifetime: Self.lifetime
        )
    }

    /// Returns the result of a ticket as JSON, once; `nil` for an unknown ticket.
    ///
    /// - Parameter record: Returns the record for the audit log, given the user.
    func redeem(ticket: String, recording record: (Int64) -> AuditRecord?) async throws -> [UInt8]? {
        let sha256 = SHA256Digest.of(ticket)
        return try await pool.withTransaction { transaction in
            guard let result = try await transaction.query(RedeemTicket(sha256: sha256)).first,
                let json = vault.open(result, for: Self.purpose(sha256)), let userID = LoginResult.userID(inJSON: json)
            else { return nil }
            try await transaction.record(record(userID))
            return json
        }
    }

    private static func purpose(_ sha256: [UInt8]) -> String { "login result \(Base64URL.encode(sha256))" }
}

// MARK: Statements

/// Claims an authorization code. Returns whether no request had claimed it before, the digest of the request that has, and
/// the result, if there is one.
struct ClaimLoginCode: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO login_results AS known (sha256, request_sha256, claim, ends_at)
        VALUES ($1, $2, $3, now() + make_interval(secs => $4))
        ON CONFLICT (sha256) DO UPDATE
        SET request_sha256 = CASE WHEN known.ends_at <= now() THEN $2 ELSE known.request_sha256 END,
            claim = CASE WHEN known.ends_at <= now() THEN $3 ELSE known.claim END,
            result = CASE WHEN known.ends_at <= now() THEN NULL ELSE known.result END,
            ends_at = CASE WHEN known.ends_at <= now() THEN excluded.ends_at ELSE known.ends_at END
        RETURNING COALESCE(claim = $3, false), request_sha256, result
        """

    let sha256: [UInt8]
    let request: [UInt8]
    let claim: UUID
    let lifetime: Duration

    var parameters: [PostgresValue] {
        [.bytes(sha256), .bytes(request), .uuid(claim), .float64(lifetime.inSeconds)]
    }
    static func decode(_ row: PostgresRow) throws -> (isNew: Bool, request: [UInt8]?, result: [UInt8]?) {
        try row.decode(Bool.self, [UInt8]?.self, [UInt8]?.self)
    }
}

/// Deletes a claim of a code without a result.
struct ReleaseLoginCode: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM login_results
        WHERE sha256 = $1
            AND claim = $2
            AND result IS NULL
        """

    let sha256: [UInt8]
    let claim: UUID

    var parameters: [PostgresValue] { [.bytes(sha256), .uuid(claim)] }
}

/// Stores the result of a ticket, or of a code under its claim. Changes nothing under another claim.
struct StoreLoginResult: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO login_results AS known (sha256, claim, result, ends_at, request_sha256)
        VALUES ($1, $2, $3, now() + make_interval(secs => $4), $5)
        ON CONFLICT (sha256) DO UPDATE
        SET result = excluded.result,
            ends_at = excluded.ends_at
        WHERE known.claim IS NOT DISTINCT FROM $2
        """

    let sha256: [UInt8]
    let request: [UInt8]?
    let claim: UUID?
    let result: [UInt8]
    let lifetime: Duration

    var parameters: [PostgresValue] {
        [.bytes(sha256), .uuid(claim), .bytes(result), .float64(lifetime.inSeconds), .bytes(request)]
    }
}

/// Returns and deletes the result of a ticket.
struct RedeemTicket: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM login_results
        WHERE sha256 = $1
            AND claim IS NULL
            AND ends_at > now()
        RETURNING result
        """

    let sha256: [UInt8]

    var parameters: [PostgresValue] { [.bytes(sha256)] }
    static func decode(_ row: PostgresRow) throws -> [UInt8] { try row.decode([UInt8].self) }
}

/// Deletes up to `limit` results that have expired.
struct DeleteExpiredLoginResults: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM login_results
        WHERE sha256 IN (
            SELECT sha256
            FROM login_results
            WHERE ends_at <= now()
            ORDER BY ends_at
            LIMIT $1
        )
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }
}
