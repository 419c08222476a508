import EventLoop
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Locking
import Postgres
import ServiceTesting
import TestSupport
import Testing

/// The proof that the server never logs a user out. Three servers refresh the tokens of the same accounts while Kakao
/// fails and servers are killed and stopped. `scripts/prove accounts` runs its long form.
///
/// A user may have to log in again for one reason only: Kakao replaced the refresh token, and the response with the
/// successor did not reach a server that lived to store it. ``AccountHistory`` has the criteria.
@Suite(.timeLimit(.minutes(30))) struct AccountCrashTests {
    @Test(
        "No user is logged out by faults, kills and stops, and no refresh token is used after its successor is stored"
    )
    func faults() async throws {
        let plan = AccountCrashPlan()
        try await withDatabaseAndKakao(sandbox: plan.sandbox) { database, kakao in
            try await AccountHistory.record(in: database)
            let servers = try await plan.startServers(database, kakao)
            do {
                try await prove(plan, servers, database, kakao)
            } catch {
                await servers.end()
                throw error
            }
            await servers.end()
        }
    }

    private func prove(
        _ plan: AccountCrashPlan,
        _ servers: ServersUnderTest,
        _ database: TestDatabase,
        _ kakao: TestKakao
    ) async throws {
        try await logIn(plan, servers, kakao)
        let sandbox = kakao.sandbox
        for fault in plan.faults { sandbox.add(fault) }
        let answers = Answers()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<(3 * Self.clientsPerServer) {
                group.addTask {
                    while !Task.isCancelled {
                        let user = Int64.random(in: 1...Int64(plan.accounts))
                        // A server that is down or stopped answers nothing. Its clients return when it does.
                        let answer = try? await servers.caller(worker % 3).post("/v1/accounts/\(user)/access-token")
                        answers.count(answer?.status)
                        if answer == nil { try? await Task.sleep(for: .milliseconds(50)) }
                    }
                }
            }
            for number in 0..<plan.kills + plan.stops {
                try await inFlight(sandbox, plan) {
                    if number.isMultiple(of: 2) {
                        await servers.kill(number / 2 % 3)
                    } else {
                        servers.stop(number / 2 % 3)
                    }
                }
                if number.isMultiple(of: 2) {
                    try await servers.restart(number / 2 % 3)
                } else {
                    // Others take over the accounts when the lease has ended.
                    try await Task.sleep(for: plan.lease * 1.4)
                    servers.continue(number / 2 % 3)
                }
                let rotations = sandbox.tokenReport().rotations + plan.accounts / 10
                try await eventually("refresh tokens are replaced", within: .seconds(120)) {
                    sandbox.tokenReport().rotations >= rotations
                }
            }
            sandbox.removeFaults()
            let end = try await database.text("SELECT now()::text")
            try await eventually("each account is refreshed, or its user must log in", within: .seconds(180)) {
                try await database.count(
                    "accounts WHERE state = 'linked' AND (refreshed_at IS NULL OR refreshed_at < '\(end)')"
                ) == 0
            }
            group.cancelAll()
            try await group.waitForAll()
        }
        try await finishRefreshes(servers, database)
        let history = try await AccountHistory(
            database,
            kakao.sandbox,
            killed: servers.killed,
            stopped: servers.stopped,
            timedOut: servers.timedOut
        )
        try await check(plan, history, servers, kakao)
        print(Self.table(plan, history, sandbox.tokenReport(), answers))
    }

    /// The number of clients that ask a server at the same time.
    private static let clientsPerServer = 8

    // MARK: Steps

    private func logIn(_ plan: AccountCrashPlan, _ servers: ServersUnderTest, _ kakao: TestKakao) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    for user in stride(from: Int64(worker + 1), through: Int64(plan.accounts), by: 8) {
                        // A third of the users log in with an app.
                        let answer = try await servers.caller(worker % 3).logIn(
                            user,
                            at: kakao,
                            appKey: user.isMultiple(of: 3) ? "native" : "rest"
                        )
                        #expect(answer.status == 200, "\(answer.text)")
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    /// Performs an action while refreshes are in flight at Kakao, on each server most likely.
    private func inFlight(_ kakao: KakaoSandbox, _ plan: AccountCrashPlan, _ action: () async -> Void) async throws {
        var slow = Fault(.latency)
        slow.path = "/oauth/token"
        slow.milliseconds = Int((plan.lease / 6).wholeMilliseconds)
        let fault = try #require(kakao.add(slow))
        defer { kakao.removeFault(fault) }
        try await eventually("refreshes are in flight") { kakao.tokenReport().inFlight >= 6 }
        await action()
    }

    /// Asks for the tokens of accounts until none has a refresh in flight or one that failed.
    private func finishRefreshes(_ servers: ServersUnderTest, _ database: TestDatabase) async throws {
        try await eventually("no refresh is in flight", within: .seconds(180)) {
            let rows = try await database.pool.read(
                "SELECT user_id FROM accounts WHERE state = 'linked' AND (lease IS NOT NULL OR attempts > 0)"
            )
            for row in rows {
                _ = try await servers.caller(0).post("/v1/accounts/\(try row.decode(Int64.self))/access-token")
            }
            return rows.isEmpty
        }
    }

    private func check(
        _ plan: AccountCrashPlan,
        _ history: AccountHistory,
        _ servers: ServersUnderTest,
        _ kakao: TestKakao
    ) async throws {
        #expect(history.violations.isEmpty, "\(history.violations.prefix(20).joined(separator: "\n"))")
        #expect(history.accounts.count == plan.accounts)
        for account in history.accounts {
            let path = "/v1/accounts/\(account.userID)/access-token"
            guard account.state == "linked" else {
                let answer = try await servers.caller(Int(account.userID % 3)).post(path)
                #expect(answer.json?["reason"] == "refresh_token_rejected", "\(answer.text)")
                continue
            }
            // A token may end, after seconds, on its way from the server to Kakao.
            try await eventually("Kakao accepts a token of user \(account.userID)") {
                let answer = try await servers.caller(Int(account.userID % 3)).post(path)
                // A server may be told to wait by Kakao's limits, or by the lease of a refresh.
                guard answer.status != 503 else { return false }
                let token = try #require(answer.json?["access_token"]?.string, "\(answer.text)")
                let info = try await kakao.browser.with("Bearer \(token)").get("/v1/user/access_token_info")
                return info.json?["id"]?.integer == account.userID
            }
        }
    }

    private static func table(
        _ plan: AccountCrashPlan,
        _ history: AccountHistory,
        _ report: TokenReport,
        _ answers: Answers
    ) -> String {
        let rows: [(String, any CustomStringConvertible)] = [
            ("accounts", plan.accounts),
            ("kills, stops", "\(plan.kills), \(plan.stops)"),
            ("requests by status (0: no response)", answers.text),
            ("refreshes, rotations at Kakao", "\(report.refreshes), \(report.rotations)"),
            ("rotations whose response was lost", report.lostRotations),
            (
                "refused requests",
                report.refusals.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }.joined(separator: ", ")
            ),
            ("leases that ended before their refresh", history.abandonedLeases),
            ("successors stored after the lease", history.lateStores),
            (
                "uses of a replaced token, before and after the response was delivered",
                "\(report.reusesBeforeDelivery), \(report.reusesAfterDelivery)"
            ),
            ("users with two refreshes in flight, one of them of a stopped server", history.usersWithTwoInFlight),
            ("linked", history.accounts.count { $0.state == "linked" }),
            ("login_required: the response was lost", history.lostResponses),
            ("login_required: the server was killed with the response", history.lostByKills),
            ("login_required: the response met the time limit of the call", history.lostByTimeouts),
            ("violations", history.violations.count),
        ]
        return "\n| accounts through faults | |\n| --- | --- |\n" + rows.map { "| \($0.0) | \($0.1) |\n" }.joined()
    }
}

/// The size of the proof. `ACCOUNTS=2000` makes it the long one.
private struct AccountCrashPlan {
    let accounts: Int
    let kills: Int
    let stops: Int
    /// The lease of a refresh.
    let lease: Duration
    let accessTokenSeconds: Int64
    let refreshTokenSeconds: Int64

    init() {
        let number = getenv("ACCOUNTS").flatMap { Int(String(cString: $0)) }
        let isLong = number != nil
        accounts = number ?? 120
        kills = isLong ? 10 : 2
        stops = kills
        lease = .milliseconds(isLong ? 3000 : 1500)
        accessTokenSeconds = isLong ? 20 : 2
        // Longer than the test takes on a slow machine: a refresh token that expires logs its user out.
        refreshTokenSeconds = isLong ? 120 : 3600
    }

    /// Kakao with short-lived tokens: every second refresh replaces the refresh token. The limits (KOE237) leave room
    /// for few refreshes beyond those of a server that refreshes each access token once, before its last fifth.
    var sandbox: KakaoSandboxSettings {
        var settings = KakaoSandboxSettings()
        settings.accessTokenSeconds = accessTokenSeconds
        settings.refreshTokenSeconds = refreshTokenSeconds
        settings.rotateRefreshTokensBelowSeconds = refreshTokenSeconds - accessTokenSeconds * 6 / 5
        settings.tokenLimit = TokenLimit(count: 20, seconds: 10 * accessTokenSeconds)
        settings.refreshLimit = TokenLimit(count: 30, seconds: 15 * accessTokenSeconds)
        return settings
    }

    /// 5 % of the refreshes fail, 2 % of the responses with a new refresh token are lost, and 1 % of the responses come
    /// after the end of the lease.
    var faults: [Fault] {
        func fault(_ kind: Fault.Kind, _ probability: Double, _ adjust: (inout Fault) -> Void = { _ in }) -> Fault {
            var fault = Fault(kind)
            fault.path = "/oauth/token"
            fault.probability = probability
            adjust(&fault)
            return fault
        }
        return [
            fault(.status, 0.05) { $0.status = 503 },
            fault(.dropAfterBody, 0.02) { $0.when = .rotated },
            fault(.latency, 0.01) { $0.milliseconds = Int((lease * 1.2).wholeMilliseconds) },
        ]
    }
}

extension AccountCrashPlan {
    /// Starts three servers that keep accounts, with a short lease.
    fileprivate func startServers(_ database: TestDatabase, _ kakao: TestKakao) async throws -> ServersUnderTest {
        var environment = RunningProgram.accountEnvironment(database, kakao)
        environment["LOG_LEVEL"] = "debug"
        return try await .start(
            3,
            ["--refresh-lease-milliseconds", String(lease.wholeMilliseconds)],
            environment: environment
        )
    }
}

extension ServersUnderTest {
    /// The users for whom a server got no response from Kakao in time, as its log says.
    fileprivate var timedOut: Set<Int64> {
        let failures = lines.lazy.filter { $0.contains("Token refresh failed") && $0.contains("timedOut") }
        return Set(
            failures.compactMap { line in
                line.split(separator: " ").first { $0.hasPrefix("user_id=") }.flatMap { Int64($0.dropFirst(8)) }
            }
        )
    }
}

/// Counts responses by their status.
private final class Answers: Sendable {
    private let counts = Locked<[Int: Int]>([:])

    func count(_ status: Int?) { counts.withLock { $0[status ?? 0, default: 0] += 1 } }

    var text: String {
        counts.withLock { $0 }.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }.joined(separator: ", ")
    }
}
