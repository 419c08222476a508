import Postgres
import Runtime

/// The report on accounts for operators.
struct AccountMonitoring: Sendable {
    private static let accounts = Metric("kakao_push_accounts", .gauge, "Accounts, by state.")
    private static let expiring = Metric(
        "kakao_push_accounts_expiring",
        .gauge,
        "Linked accounts whose refresh token the servers renew and that expires within 7 days. All servers report the same number."
    )
    private static let refreshes = Metric(
        "kakao_push_token_refreshes_total",
        .counter,
        "Refreshes of users' access tokens by this server, by outcome."
    )

    private let numbers: CachedQuery<AccountNumbers>
    private let counts: RefreshCounts

    init(pool: PostgresPool, counts: RefreshCounts) {
        self.counts = counts
        numbers = CachedQuery(pool, lifetime: .seconds(60)) { pool in
            AccountNumbers(
                states: try await pool.read(CountAccounts()),
                expiring: try await pool.read(CountExpiringAccounts()).first ?? 0
            )
        }
    }

    func report() async -> Monitoring.Report {
        let refreshes = Self.refreshes.reading(
            "outcome",
            RefreshOutcome.allCases.map { ($0.rawValue, Double(counts[$0])) }
        )
        guard let numbers = await numbers.value() else {
            // The count of very many accounts may take too long, which says nothing about the database.
            return Monitoring.Report(metrics: [refreshes])
        }
        let states = Dictionary(numbers.states) { first, _ in first }
        return Monitoring.Report(metrics: [
            Self.accounts.reading(
                "state",
                AccountState.allCases.map { ($0.rawValue, Double(states[$0] ?? 0)) }
            ),
            Self.expiring.reading(Double(numbers.expiring)),
            refreshes,
        ])
    }
}

/// The numbers of accounts.
struct AccountNumbers: Sendable {
    let states: [(AccountState, Int64)]
    let expiring: Int64
}

/// Counts the accounts in each state.
struct CountAccounts: PostgresStatement {
    static let sql: SQL = """
        SELECT state, count(*)
        FROM accounts
        GROUP BY state
        """

    static func decode(_ row: PostgresRow) throws -> (AccountState, Int64) {
        try row.decode(AccountState.self, Int64.self)
    }
}

/// Counts the linked accounts whose refresh token expires within 7 days.
struct CountExpiringAccounts: PostgresStatement {
    static let sql: SQL = """
        SELECT count(*)
        FROM accounts
        WHERE state = 'linked'
            AND refreshed_by = 'server'
            AND refresh_token_ends_at < now() + interval '7 days'
        """

    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
