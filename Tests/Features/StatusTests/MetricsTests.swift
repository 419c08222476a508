import FoundationEssentials
import Glibc
import HTTPClient
import HTTPTypes
import KakaoAPI
import KakaoSandbox
import Postgres
import PrivatePostgres
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Identity
@testable import Runtime
@testable import Server

extension Exposition {
    /// Returns the number of calls to Kakao with this outcome.
    fileprivate func kakao(_ api: String, _ outcome: String) -> Double? {
        value("kakao_push_kakao_requests_total", ["api": api, "outcome": outcome])
    }

    /// Returns the number of calls to Kakao with any other outcome.
    fileprivate func kakao(_ api: String, otherThan outcomes: Set<String>) -> Double {
        let samples = families["kakao_push_kakao_requests_total"]?.samples ?? []
        return samples.filter { $0.labels["api"] == api && !outcomes.contains($0.labels["outcome"] ?? "") }
            .reduce(0) { $0 + $1.value }
    }

    /// The states that are set for the sender. A valid exposition has exactly one.
    var sender: [String] {
        (families["kakao_push_sender_state"]?.samples ?? []).filter { $0.value == 1 }.compactMap { $0.labels["state"] }
    }

    fileprivate func batches(_ state: String) -> Double? { value("kakao_push_batches", ["state": state]) }
}

/// Tests of `/metrics`, parsed as Prometheus does.
@Suite(.timeLimit(.minutes(5))) struct MetricsTests {
    /// The metrics that are always present.
    private static let always: Set = [
        "kakao_push_kakao_requests_total", "kakao_push_kakao_request_duration_seconds", "kakao_push_sender_state",
        "kakao_push_sender_failing_seconds", "kakao_push_link_callbacks_total", "kakao_push_landings_uncounted_total",
        "kakao_push_landings_limited_total",
        "kakao_push_token_refreshes_total", "kakao_push_notices_total", "kakao_push_calls_from_elsewhere_total",
        "kakao_push_users_total", "kakao_push_opens_total",
        "kakao_push_message_receivers_total", "kakao_push_webhook_requests_total", "kakao_push_webhooks_dropped_total",
        "kakao_push_database_up", "kakao_push_database_statements_total",
        "kakao_push_database_statement_duration_seconds", "kakao_push_database_waiting",
        "kakao_push_database_reconnects_total", "kakao_push_lost_commits_total", "kakao_push_loop_delay_seconds",
        "push_server_build_info",
        "kakao_push_refused_deregistrations_total", "kakao_push_http_connections", "kakao_push_http_connections_limit",
        "kakao_push_http_connections_evicted_total", "kakao_push_http_connections_waiting",
        "kakao_push_http_unreadable_addresses_total",
        "process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "process_start_time_seconds",
    ]
    /// The metrics that appear with the first request of their kind.
    private static let ofRequests: Set = [
        "kakao_push_http_requests_total", "kakao_push_http_request_duration_seconds", "kakao_push_refused_total",
        "kakao_push_http_rejected_credentials_total",
    ]
    /// The metrics that are present only while the database is available.
    private static let fromDatabase: Set = [
        "kakao_push_pushes", "kakao_push_messages", "kakao_push_batches", "kakao_push_oldest_waiting_batch_age_seconds",
        "kakao_push_devices_unsettled", "kakao_push_accounts", "kakao_push_accounts_expiring",
    ]

    /// The metrics that are present only with a journal.
    private static let ofJournal: Set = [
        "kakao_push_journal_open", "kakao_push_journal_records", "kakao_push_journal_oldest_record_age_seconds",
        "kakao_push_journal_rejected_records", "kakao_push_journal_failures_total",
        "kakao_push_journal_unverified_open",
    ]
    /// All metrics, including those that depend on a certificate, on the log's output, on an endpoint of webhooks or on a
    /// replica of the database.
    static let all = always.union(ofRequests).union(fromDatabase).union(ofJournal)
        .union([
            "kakao_push_certificate_expiry_seconds", "kakao_push_log_lines_dropped_total",
            "kakao_push_webhook_lag_seconds", "kakao_push_webhook_endpoint_up",
            "kakao_push_kakao_foreign_responses_total", "kakao_push_replica_up", "kakao_push_replica_lag_seconds",
            "kakao_push_replica_failures_total",
        ])

    @Test("docs/metrics.md lists every metric")
    func listed() throws {
        let text = try String(contentsOfFile: "\(TestFiles.repository)/docs/metrics.md", encoding: .utf8)
        for name in Self.all {
            #expect(text.contains("| `\(name)`") || text.contains("| `\(name){"), "\(name)")
        }
    }

    @Test("The counters rise with the calls to Kakao, and every metric is present from the start")
    func counters() async throws {
        try await withService { service in
            let before = try await service.api.metrics()
            #expect(Set(before.families.keys) == Self.always.union(Self.fromDatabase))
            #expect(before.families.values.allSatisfy { !$0.help.isEmpty })
            for api in ["push_register", "push_tokens", "push_deregister", "push_send"] {
                #expect(before.kakao(api, otherThan: []) == 0)
                #expect(before.value("kakao_push_kakao_request_duration_seconds_count", ["api": api]) == 0)
            }
            #expect(before.sender == ["running"])
            #expect(before.value("kakao_push_database_up") == 1)
            #expect(before.batches("waiting") == 0)
            #expect(before.batches("sending") == 0)
            #expect(before.value("kakao_push_oldest_waiting_batch_age_seconds") == 0)
            #expect(before.value("kakao_push_devices_unsettled") == 0)

            for user in Int64(1)...2 { _ = try await service.api.register(user, "token-\(user)") }
            for _ in 0..<3 { try await service.api.waitUntilDone(service.push([1, 2])) }
            _ = try await service.api.deregister(2)
            let after = try await service.api.metrics()
            #expect(after.kakao("push_register", "ok") == 2)
            #expect(after.kakao("push_send", "ok") == 3)
            #expect(after.kakao("push_deregister", "ok") == 1)
            for (api, count) in [("push_register", 2.0), ("push_send", 3), ("push_deregister", 1), ("push_tokens", 0)] {
                #expect(after.kakao(api, otherThan: ["ok"]) == 0)
                #expect(after.value("kakao_push_kakao_request_duration_seconds_count", ["api": api]) == count)
            }
            #expect(after.value("kakao_push_kakao_request_duration_seconds_sum", ["api": "push_send"]) ?? 0 > 0)
        }
    }

    @Test(
        "An error of Kakao is counted under its outcome",
        arguments: [
            (500, -1, "retry"), (400, -603, "retry"), (429, -10, "wait"), (400, -10, "wait"), (401, -401, "halt"),
            (403, -5, "halt"), (400, -2, "refused"), (404, -5000, "refused"), (500, nil, "bad_answer"),
            (404, nil, "bad_answer"),
        ] as [(Int, Int?, String)]
    )
    func faults(status: Int, code: Int?, outcome: String) async throws {
        try await withService { service in
            service.kakao.fail("send", status: status, code: code, times: 1)
            _ = try await service.push([1])
            try await eventually("the outcome is counted") {
                try await service.api.metrics().kakao("push_send", outcome) == 1
            }
            let metrics = try await service.api.metrics()
            #expect(metrics.kakao("push_send", otherThan: [outcome, "ok"]) == 0)
            let labels = ["status": String(status), "type": "html"]
            #expect(metrics.value("kakao_push_kakao_foreign_responses_total", labels) == (code == nil ? 1 : nil))
        }
    }

    @Test("A call without a response of Kakao is counted as unreachable, and the device as unsettled")
    func unreachable() async throws {
        try await withService { service in
            service.kakao.fail("register", .dropAfterBody)
            #expect(try await service.api.register(1, "token").isPending)
            let metrics = try await service.api.metrics()
            #expect(metrics.kakao("push_register", "unreachable") ?? 0 >= 1)
            #expect(metrics.kakao("push_register", otherThan: ["unreachable"]) == 0)
            #expect(metrics.value("kakao_push_devices_unsettled") == 1)
        }
    }

    @Test("Each result of a call to Kakao has its outcome")
    func outcomes() {
        func outcome(_ code: HTTPClientError.Code) -> String {
            let error = HTTPClientError(code: code, mayHaveBeenSent: true, message: "m")
            return KakaoOutcome(KakaoError(kind: .unreachable(error))).rawValue
        }
        #expect(outcome(.timedOut) == "timeout")
        #expect(
            [.cannotResolve, .cannotConnect, .proxy, .tls, .connectionLost].allSatisfy { outcome($0) == "unreachable" }
        )
        #expect([.responseTooLarge, .badResponse].allSatisfy { outcome($0) == "bad_answer" })
        #expect([.canceled, .overloaded, .shutDown, .internalFailure].allSatisfy { outcome($0) == "given_up" })
        #expect([.invalidRequest].allSatisfy { outcome($0) == "halt" })
        #expect(
            KakaoOutcome(KakaoError(kind: .unrecognized(UnrecognizedResponse(status: 200)))).rawValue == "bad_answer"
        )
        #expect(KakaoOutcome(nil).rawValue == "ok")
    }

    @Test("While a quota is exhausted, the sender and its batches are waiting, and the batches' age grows")
    func waiting() async throws {
        try await withService { service in
            service.kakao.fail("send", status: 429, code: -10)
            _ = try await service.push([1])
            var age = 0.0
            try await eventually("the sender waits with a batch") {
                let metrics = try await service.api.metrics()
                age = metrics.value("kakao_push_oldest_waiting_batch_age_seconds") ?? 0
                return metrics.sender == ["waiting"] && metrics.batches("waiting") == 1
                    && metrics.batches("sending") == 0 && age > 0
            }
            try await eventually("the batch has waited for longer") {
                try await service.api.metrics().value("kakao_push_oldest_waiting_batch_age_seconds") ?? 0 > age
            }
        }
    }

    @Test("While Kakao refuses the key, the sender is halted, and the metrics do not contain the reason")
    func halted() async throws {
        try await withService { service in
            service.kakao.fail("send", status: 401, code: -401) { $0.message = "words of Kakao" }
            let push = try await service.push([1])
            try await eventually("the push is halted") { try await service.api.state(push) == "halted" }
            let answer = try await service.api.get("/metrics")
            #expect(try Exposition(answer.body).sender == ["halted"])
            #expect(!answer.text.contains("words"))
            service.kakao.sandbox.removeFaults()
            #expect(try await service.api.post("\(push)/resume").status == 200)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.metrics().sender == ["running"])
        }
    }

    @Test("Two servers in one process have separate metrics")
    func twoServers() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            try await RunningServer.with(settings) { first in
                try await RunningServer.with(settings) { second in
                    _ = try await first.register(1, "token")
                    let metrics = [try await first.metrics(), try await second.metrics()]
                    #expect(metrics.map { $0.kakao("push_register", "ok") } == [1, 0])
                }
            }
        }
    }

    @Test("Frequent scrapes do not query the database each time, and every response is complete")
    func cached() async throws {
        try await withService { service in
            let before = try await service.api.metrics().value("kakao_push_database_statements_total") ?? 0
            #expect(before > 0)
            let scrapes = 80
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<8 {
                    group.addTask { for _ in 0..<(scrapes / 8) { _ = try await service.api.metrics() } }
                }
                try await group.waitForAll()
            }
            let after = try await service.api.metrics().value("kakao_push_database_statements_total") ?? 0
            // Some of the statements are those of the server's workers.
            #expect(after - before < Double(scrapes) / 2)
        }
    }

    @Test("The metrics of the process are those of the kernel")
    func process() async throws {
        try await withService { service in
            let metrics = try await service.api.metrics()
            #expect(metrics.value("process_resident_memory_bytes") ?? 0 > 1_000_000)
            #expect(metrics.value("process_cpu_seconds_total") ?? 0 > 0)
            let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
            // Concurrent tests open and close descriptors.
            let open = metrics.value("process_open_fds") ?? 0
            #expect(open > 10 && open < Double(descriptors) * 10)
            let start = metrics.value("process_start_time_seconds") ?? 0
            let age = Date().timeIntervalSince1970 - start
            #expect(age > 0 && age < 86_400)
        }
    }

    @Test("A key with the scope read is sufficient, and other methods are rejected")
    func access() async throws {
        try await withService { service in
            let key = try await OperatorKeyStore(pool: service.database.pool)
                .create(name: "prometheus", scopes: [.read], expiresAt: nil)
            _ = try await service.api.with("Bearer \(key)").metrics()
            for wrong in [nil, "Bearer wrong", "KakaoAK \(Keys.admin)"] {
                let answer = try await service.api.with(wrong).get("/metrics")
                #expect(answer.status == 401)
                #expect(!answer.text.contains("process_"))
            }
            #expect(try await service.api.post("/metrics").status == 405)
        }
    }

    @Test("With the database down, the operator and keys used before get the remaining metrics")
    func databaseDown() async throws {
        try await withClusterAndKakao { try await Self.stopAndStart($0, $1, $2) }
    }

    private static func stopAndStart(_ cluster: PostgresCluster, _ url: String, _ kakao: TestKakao) async throws {
        let settings = Settings.test(url, kakao: kakao.sandbox.url)
        try await RunningServer.with(settings) { api in
            let pool = try await Shared.pool(url)
            let store = OperatorKeyStore(pool: pool)
            let revoked = api.with("Bearer \(try await store.create(name: "a", scopes: [.read], expiresAt: nil))")
            let reader = api.with("Bearer \(try await store.create(name: "b", scopes: [.read], expiresAt: nil))")
            let other = api.with("Bearer \(try await store.create(name: "c", scopes: [.read], expiresAt: nil))")
            _ = try await revoked.metrics()
            #expect(try await store.revoke(name: "a") == 1)
            try await eventually("the revoked key is refused") { try await revoked.get("/metrics").status == 401 }
            await pool.shutdown()
            #expect(try await api.register(1, "token").status == 200)
            #expect(try await reader.metrics().value("kakao_push_database_up") == 1)

            await cluster.stop(.fast)
            try await eventually("the metrics show the database as down") {
                try await reader.metrics().value("kakao_push_database_up") == 0
            }
            // The numbers of accounts are counted once a minute.
            let cached: Set = ["kakao_push_accounts", "kakao_push_accounts_expiring"]
            // Others are a few seconds old, each of an age of its own.
            try await eventually("only metrics remain that need no database") {
                try await Set(reader.metrics().families.keys).subtracting(cached) == always.union(ofRequests)
            }
            let metrics = try await reader.metrics()
            #expect(metrics.kakao("push_register", "ok") == 1)
            for caller in [other, revoked] {
                let answer = try await caller.get("/metrics")
                #expect(answer.status == 503)
                #expect(!answer.text.contains("process_"))
            }
            #expect(try await api.with(nil).get("/metrics").status == 401)
            // The key of operator.key needs no database.
            #expect(try await api.metrics().value("kakao_push_database_up") == 0)

            try await cluster.start()
            try await eventually("the metrics show the database as up") {
                try await api.metrics().value("kakao_push_database_up") == 1
            }
            #expect(Set(try await api.metrics().families.keys) == always.union(fromDatabase).union(ofRequests))
        }
    }

    @Test("A server that starts without its database serves metrics before it is ready")
    func startedWithout() async throws {
        try await Slots.servers.with {
            // Nothing listens on port 1 of the loopback address.
            let settings = Settings.test("postgres://nobody@127.0.0.1:1/none", kakao: "http://127.0.0.1:1")
            let server = try await RunningServer.start(settings, log: CollectedLog(), awaitsDatabase: false)
            let api = TestClient(url: server.url)
            let metrics = try await api.metrics()
            #expect(metrics.value("kakao_push_database_up") == 0)
            #expect(Set(metrics.families.keys) == Self.always)
            #expect(try await api.with(nil).get("/metrics").status == 401)
            try await server.stop()
        }
    }
}
