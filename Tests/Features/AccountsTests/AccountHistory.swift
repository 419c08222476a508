import FoundationEssentials
import KakaoSandbox
import Postgres
import ServiceTesting
import TestSupport

/// What became of each account, from the changes of its row, which a trigger records, and from the sandbox's report.
///
/// The criteria:
///
/// - **No user is logged out.** An account is `linked`, and each refresh token that Kakao issued was stored. Or it is
///   `login_required` with `refresh_token_rejected`, exactly the last one was not stored, and its response was lost: the
///   sandbox dropped it or had no connection for it, its server was killed under the lease of the refresh, or its server
///   closed the connection at the time limit just when the response arrived, and logged so. A stopped server stores the
///   response when it continues, so a stop excuses nothing.
/// - **No refresh token is used after its successor is stored.** A server that dies or stops with a response leaves the
///   old token in the row, and another one uses it when the lease has ended. The stopped server may then store its
///   response while the other one calls Kakao. So a use of a replaced token must arrive under a lease that was granted
///   while the row had this token, and that has not ended.
/// - **An account has one refresh in flight.** A stopped server cannot end its call when its time limit is over, so a
///   second one may begin after the lease. Such a user had a lease when a server was stopped, and it was not released in
///   time.
struct AccountHistory {
    struct Account {
        let userID: Int64
        let state: String
        let reason: String?
    }

    /// A lease of an account.
    fileprivate struct Lease {
        let tokenSHA256: [UInt8]?
        let start: Date
        let end: Date
        var releasedAt: Date?

        /// Whether its server did not release it in time.
        var isAbandoned: Bool { releasedAt.map { $0 >= end } ?? true }

        func contains(_ time: Date) -> Bool { start <= time && time <= end }

        /// Returns whether its server had it when the server was killed or stopped. The database may have committed the
        /// lease shortly after.
        func isHeld(at fault: Date) -> Bool { isAbandoned && start <= fault + 0.2 && fault <= end }
    }

    /// The changes of one account.
    fileprivate struct Changes {
        var leases: [UUID: Lease] = [:]
        /// The lease and the refresh token of the row at last.
        var lease: UUID?
        var tokenSHA256: [UInt8]?
        var storedTokens = 0
        var lateStores = 0
    }

    private(set) var accounts: [Account] = []
    private(set) var violations: [String] = []
    private(set) var abandonedLeases = 0
    /// The successors that were stored while another server, or none, held the lease.
    private(set) var lateStores = 0
    private(set) var usersWithTwoInFlight = 0
    private(set) var lostResponses = 0
    private(set) var lostByKills = 0
    /// Kakao handed the response to the connection when the server gave up.
    private(set) var lostByTimeouts = 0

    /// Records the changes of accounts from now on.
    static func record(in database: TestDatabase) async throws {
        for statement in [
            """
            CREATE TABLE account_changes (
                id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                user_id       bigint NOT NULL,
                at            timestamptz NOT NULL,
                lease         uuid,
                lease_ends_at timestamptz,
                token_sha256  bytea
            )
            """,
            """
            CREATE FUNCTION record_account_change() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO account_changes (user_id, at, lease, lease_ends_at, token_sha256)
                VALUES (NEW.user_id, clock_timestamp(), NEW.lease, NEW.lease_ends_at, NEW.refresh_token_sha256);
                RETURN NULL;
            END
            $$
            """,
            """
            CREATE TRIGGER record_account_change AFTER INSERT OR UPDATE ON accounts
            FOR EACH ROW EXECUTE FUNCTION record_account_change()
            """,
        ] {
            try await database.pool.write(statement)
        }
    }

    /// Reads the changes, and checks them.
    ///
    /// - Parameters:
    ///   - killed: The times at which servers were killed.
    ///   - stopped: The times at which servers were stopped.
    ///   - timedOut: The users for whom a server got no response in time.
    init(
        _ database: TestDatabase,
        _ kakao: KakaoSandbox,
        killed: [Date],
        stopped: [Date],
        timedOut: Set<Int64>
    ) async throws {
        let changes = try await Self.changes(database)
        let reuses = Dictionary(grouping: kakao.tokenReuses(), by: \.userID)
        for row in try await database.pool.read("SELECT user_id, state, reason FROM accounts ORDER BY user_id") {
            let (userID, state, reason) = try row.decode(Int64.self, String.self, String?.self)
            let account = Account(userID: userID, state: state, reason: reason)
            accounts.append(account)
            let change = changes[userID] ?? Changes()
            let report = kakao.tokenReport(of: userID)
            abandonedLeases += change.leases.values.count(where: \.isAbandoned)
            lateStores += change.lateStores
            checkEnd(account, change, report, killed, timedOut)
            checkFlight(account, change, report, stopped)
            for reuse in reuses[userID] ?? [] { checkUse(reuse, change) }
        }
    }

    private static func changes(_ database: TestDatabase) async throws -> [Int64: Changes] {
        var changes: [Int64: Changes] = [:]
        let rows = try await database.pool.read(
            "SELECT user_id, at, lease, lease_ends_at, token_sha256 FROM account_changes ORDER BY user_id, id"
        )
        for row in rows {
            let (userID, at, lease, end, token) = try row.decode(
                Int64.self,
                Date.self,
                UUID?.self,
                Date?.self,
                [UInt8]?.self
            )
            changes[userID, default: Changes()].add(at, lease, end, token)
        }
        return changes
    }

    // MARK: Criteria

    private mutating func checkEnd(
        _ account: Account,
        _ change: Changes,
        _ report: TokenReport,
        _ killed: [Date],
        _ timedOut: Set<Int64>
    ) {
        let missing = report.rotations - change.storedTokens
        if account.state == "linked" {
            guard missing != 0 else { return }
            violations.append("\(account.userID) is linked, but \(missing) refresh tokens were not stored")
            return
        }
        guard account.state == "login_required", account.reason == "refresh_token_rejected", missing == 1 else {
            violations.append("\(account.userID) is \(account.state), \(account.reason ?? "-"), \(missing) not stored")
            return
        }
        let isKilled = change.leases.values.contains { lease in
            lease.tokenSHA256 == change.tokenSHA256 && killed.contains(where: lease.isHeld)
        }
        if report.lostRotations == 1 {
            lostResponses += 1
        } else if isKilled {
            lostByKills += 1
        } else if timedOut.contains(account.userID) {
            lostByTimeouts += 1
        } else {
            violations.append("\(account.userID) must log in, though no response was lost: \(report)")
        }
    }

    private mutating func checkFlight(_ account: Account, _ change: Changes, _ report: TokenReport, _ stopped: [Date]) {
        guard report.maximumInFlight > 1 else { return }
        usersWithTwoInFlight += 1
        let isStopped = change.leases.values.contains { stopped.contains(where: $0.isHeld) }
        if report.maximumInFlight > 2 || !isStopped {
            violations.append("\(account.userID) had \(report.maximumInFlight) refreshes in flight")
        }
    }

    private mutating func checkUse(_ use: TokenReuse, _ change: Changes) {
        // The sandbox's time is rounded down to a millisecond.
        let from = Date(timeIntervalSince1970: Double(use.unixMilliseconds) / 1000)
        let isCovered = change.leases.values.contains { lease in
            lease.tokenSHA256 == use.tokenSHA256 && (lease.contains(from) || lease.contains(from + 0.001))
        }
        if !isCovered { violations.append("\(use.userID) used a replaced refresh token without a lease: \(use)") }
    }
}

extension AccountHistory.Changes {
    fileprivate mutating func add(_ at: Date, _ newLease: UUID?, _ end: Date?, _ token: [UInt8]?) {
        if let tokenSHA256, token != tokenSHA256 {
            storedTokens += 1
            // The server of the lease stores a token and releases the lease at once.
            if newLease == lease { lateStores += 1 }
        }
        if newLease != lease {
            if let lease { leases[lease]?.releasedAt = at }
            if let newLease, let end {
                leases[newLease] = AccountHistory.Lease(tokenSHA256: token, start: at, end: end)
            }
        }
        lease = newLease
        tokenSHA256 = token
    }
}
