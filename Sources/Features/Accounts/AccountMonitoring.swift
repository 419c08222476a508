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

    private let numbers: CachedQuery<[CountAccounts.Row]>
    private let counts: RefreshCounts

    init(pool: PostgresPool, counts: RefreshCounts) {
        self.counts = counts
        numbers = CachedQuery(pool, lifetime: .seconds(60)) { try await $0.read(CountAccounts()) }
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
        let states = Dictionary(numbers.map { ($0.state, $0.accounts) }) { first, _ in first }
        return Monitoring.Report(metrics: [
            Self.accounts.reading("state", AccountState.allCases.map { ($0.rawValue, Double(states[$0] ?? 0)) }),
            Self.expiring.reading(Double(numbers.reduce(0) { $0 + $1.expiring })),
            refreshes,
        ])
    }
}

/// Counts the accounts in each state, and among them the linked ones whose refresh token the servers renew and that expires
/// within 7 days.
struct CountAccounts: PostgresStatement {
    static let sql: SQL = """
        SELECT state, count(*), count(*) FILTER (
                WHERE state = 'linked'
                    AND refreshed_by = 'server'
                    AND refresh_token_ends_at < now() + interval '7 days'
            )
        FROM accounts
        GROUP BY state
        """

    static func decode(_ row: PostgresRow) throws -> (state: AccountState, accounts: Int64, expiring: Int64) {
        try row.decode(AccountState.self, Int64.self, Int64.self)
    }
}
