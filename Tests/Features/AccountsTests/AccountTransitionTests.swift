import Crypto
import FoundationEssentials
import Postgres
import ServiceKit
import ServiceTesting
import TestSupport
import Testing

@testable import Accounts

/// The state machine of an account, as ``AccountEvent`` describes it, against the statements and the database.
@Suite struct AccountTransitionTests {
    /// A state of the row, or no row.
    private static let states: [AccountState?] = [nil] + AccountState.allCases

    @Test("Every event changes an account in every state as the table says", arguments: AccountEvent.allCases)
    func walk(event: AccountEvent) async throws {
        try await TestDatabase.with { database in
            for state in Self.states {
                try await database.pool.write("DELETE FROM accounts")
                let account = StoredAccount(pool: database.pool, state: state)
                try await account.insert(isExpired: event == .expire)
                let before = try await account.columns()
                try await account.run(event)
                let expected = event.transitions[state] ?? state
                #expect(try await account.readState() == expected, "\(event) in \(String(describing: state))")
                guard state != nil, expected != nil else { continue }
                let after = try await account.columns()
                let changed = Set(before.keys.filter { before[$0] != after[$0] })
                if event.transitions[state] == nil {
                    #expect(changed.isEmpty, "\(event) in \(String(describing: state)): \(changed)")
                } else {
                    #expect(changed.isSubset(of: event.columns), "\(event) in \(String(describing: state)): \(changed)")
                    #expect(!changed.isEmpty, "\(event) in \(String(describing: state))")
                }
            }
        }
    }

    @Test("A lease that another server has taken is kept, but the response to a refresh is stored all the same")
    func otherLease() async throws {
        try await TestDatabase.with { database in
            let account = StoredAccount(pool: database.pool, state: .linked)
            try await account.insert()
            try await database.pool.write("UPDATE accounts SET lease = gen_random_uuid()")
            let before = try await account.columns()
            try await account.run(.postpone)
            #expect(try await account.columns() == before)
            try await account.run(.refresh)
            let after = try await account.columns()
            #expect(after["lease"] == before["lease"])
            #expect(after["tokens"] != before["tokens"])
        }
    }

    @Test("After another refresh token was stored, neither a late response nor a late rejection changes anything")
    func superseded() async throws {
        try await TestDatabase.with { database in
            let account = StoredAccount(pool: database.pool, state: .linked)
            try await account.insert()
            try await database.pool.write(
                "UPDATE accounts SET refresh_token_sha256 = sha256('another'::bytea)"
            )
            let before = try await account.columns()
            try await account.run(.refresh)
            try await account.run(.reject)
            #expect(try await account.columns() == before)
        }
    }

    @Test("An event from before the last login changes nothing", arguments: [UserEvent.Kind.left, .tokensRevoked])
    func earlier(kind: UserEvent.Kind) async throws {
        try await TestDatabase.with { database in
            let account = StoredAccount(pool: database.pool, state: .linked)
            try await account.insert()
            let event = UserEvent(userID: 1, kind: kind, type: "unlink", happenedAt: Date() - 3 * 86_400)
            #expect(try await database.pool.write(EndAccounts(events: [event])).isEmpty)
            #expect(try await account.readState() == .linked)
        }
    }
}

/// An account in one of the states. None of its columns has the value that an event gives it.
private struct StoredAccount {
    private static let userID: Int64 = 1
    private static let tokens: [UInt8] = [1]
    private static let used = SHA256Digest.of("refresh")

    let pool: PostgresPool
    /// `nil` for no row.
    let state: AccountState?
    private let lease = UUID()

    init(pool: PostgresPool, state: AccountState?) {
        self.pool = pool
        self.state = state
    }

    /// - Parameter isExpired: Whether the refresh token has expired.
    func insert(isExpired: Bool = false) async throws {
        guard let state else { return }
        try await pool.write(
            """
            INSERT INTO accounts (
                user_id, state, reason, app_key, refreshed_by, scopes, tokens, key_id, refresh_token_sha256,
                access_token_ends_at, refresh_at, refresh_token_ends_at, renew_at, lease, lease_ends_at, attempts,
                retry_at, created_at, linked_at, refreshed_at, is_verified
            )
            SELECT $1, $2, 'before', 'native', 'server', '{}', $3, CASE WHEN $3 IS NOT NULL THEN 'old' END, $4,
                CASE WHEN $3 IS NOT NULL THEN yesterday END, CASE WHEN $3 IS NOT NULL THEN yesterday END,
                CASE WHEN $6 THEN yesterday ELSE now() + interval '9 days' END, yesterday, $5, yesterday, 3, yesterday,
                yesterday, yesterday, yesterday, false
            FROM (SELECT now() - interval '1 day' AS yesterday) AS time
            """,
            [
                .int64(Self.userID), .text(state.rawValue), .bytes(state == .unlinked ? nil : Self.tokens),
                .bytes(state == .unlinked ? nil : Self.used), .uuid(lease), .bool(isExpired),
            ]
        )
    }

    /// Its columns as PostgreSQL writes them in JSON.
    func columns() async throws -> [String: String] {
        guard state != nil else { return [:] }
        return try await pool.columns(ofRow: "SELECT * FROM accounts WHERE user_id = $1", [.int64(Self.userID)])
    }

    func readState() async throws -> AccountState? {
        try await pool.read("SELECT state FROM accounts WHERE user_id = $1", [.int64(Self.userID)])
            .first?.decode(AccountState.self)
    }

    func run(_ event: AccountEvent) async throws {
        let issued = IssuedTokens(
            tokens: AccountTokens(accessToken: "new", refreshToken: "new-refresh"),
            accessTokenLifetime: 100,
            refreshTokenLifetime: 5000,
            scopes: ["profile_nickname"]
        )
        let sealed = TokenVault.Sealed(bytes: [2], keyID: "new")
        let claim = RefreshClaim(
            userID: Self.userID,
            lease: lease,
            appKey: .native,
            sealed: TokenVault.Sealed(bytes: Self.tokens, keyID: "old"),
            attempts: 3,
            isVerified: false
        )
        switch event {
        case .logIn:
            let login = Login(
                userID: Self.userID,
                appKey: .rest,
                refreshedBy: .server,
                issued: issued,
                isVerified: false
            )
            _ = try await pool.write(StoreLogin(login: login, sealed: sealed)) as [Bool]
        case .claim:
            _ =
                try await pool.write(ClaimRefresh(userID: Self.userID, tokens: Self.tokens, duration: .seconds(30)))
                as [RefreshClaim]
        case .refresh:
            _ =
                try await pool.write(
                    StoreRefresh(claim: claim, usedSHA256: Self.used, issued: issued, sealed: sealed)
                ) as [Bool]
        case .reject: try await pool.write(RejectRefresh(claim: claim, usedSHA256: Self.used))
        case .postpone: try await pool.write(PostponeRefresh(claim: claim, pause: .seconds(60)))
        case .expire: try await pool.write(ExpireAccounts(limit: 10))
        case .revoke, .leave:
            let event = UserEvent(
                userID: Self.userID,
                kind: event == .leave ? .left : .tokensRevoked,
                type: UserEvent.logout,
                happenedAt: Date()
            )
            _ = try await pool.write(EndAccounts(events: [event])) as [Int64]
        case .verify:
            try await pool.write(VerifyAccount(userID: Self.userID, refreshTokenSHA256: Self.used))
        case .distrust: try await pool.write(ExpireAccessToken(userID: Self.userID, pause: .seconds(60)))
        case .reencrypt:
            try await pool.write(
                StoreReencryption(changes: [Reencryption(userID: Self.userID, old: claim.sealed, new: sealed)])
            )
        case .erase: try await pool.write(DeleteAccount(userID: Self.userID, linkedUntil: nil))
        }
    }
}
