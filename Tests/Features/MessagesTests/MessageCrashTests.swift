import EventLoop
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Postgres
import PrivatePostgres
import ServiceTesting
import TestSupport
import Testing

/// The proof that no receiver of a KakaoTalk message is reached twice. Three servers send the messages of many senders
/// while Kakao fails, servers are killed and stopped, and PostgreSQL restarts. `scripts/prove messages` runs its long form.
///
/// ``MessageHistory`` has the criteria.
@Suite(.timeLimit(.minutes(30))) struct MessageCrashTests {
    @Test("Nobody who is sent is reached twice by faults, kills, stops and a restart of PostgreSQL")
    func faults() async throws {
        let plan = MessageCrashPlan()
        try await withClusterAndKakao { cluster, url, kakao in
            let database = TestDatabase(url: url, pool: try await Shared.pool(url))
            try await database.migrate()
            let servers = try await plan.startServers(database, kakao)
            do {
                try await prove(plan, servers, cluster, database, kakao)
            } catch {
                await servers.end()
                throw error
            }
            await servers.end()
            await database.pool.shutdown()
        }
    }

    private func prove(
        _ plan: MessageCrashPlan,
        _ servers: ServersUnderTest,
        _ cluster: PostgresCluster,
        _ database: TestDatabase,
        _ kakao: TestKakao
    ) async throws {
        try await logIn(plan, servers, kakao)
        for fault in plan.faults { kakao.sandbox.add(fault) }
        async let created: Void = create(plan, servers, kakao)
        for (number, event) in plan.events.enumerated() {
            let settled = plan.receivers * number / (plan.events.count + 1)
            try await eventually("messages are being sent", within: .seconds(300)) {
                let sending = try await database.count("message_receivers WHERE state = 'sending'")
                let ended = try await database.count("message_receivers WHERE finished_at IS NOT NULL")
                let waiting = try await database.count("message_receivers WHERE state = 'waiting'")
                // On a busy machine, all may have been sent before the last events.
                return sending >= plan.receiversInFlight && ended >= settled || ended + waiting == plan.receivers
            }
            let server = number % plan.servers
            switch event {
            case .kill:
                await servers.kill(server)
                try await servers.restart(server)
            case .stop:
                servers.stop(server)
                // Others take over the receivers when the lease has ended.
                try await Task.sleep(for: plan.lease * 1.4)
                servers.continue(server)
            case .restartPostgres:
                await cluster.stop(.immediate)
                try await cluster.start()
                try await eventually("the test is connected again") {
                    (try? await database.count("messages")) != nil
                }
            }
        }
        try await created
        try await eventually("all messages have ended", within: .seconds(600)) {
            // Those that wait for a retry, for up to two minutes, are due now, as time would make them.
            try await database.pool.write("UPDATE message_receivers SET due_at = now() WHERE state = 'waiting'")
            return try await database.count("messages WHERE state = 'active'") == 0
        }
        let history = try await MessageHistory(plan, database, kakao.sandbox)
        #expect(history.violations.isEmpty, "\(history.violations.prefix(20).joined(separator: "\n"))")
        print(history.table)
    }

    // MARK: Steps

    /// Logs the senders in, with their friends.
    private func logIn(_ plan: MessageCrashPlan, _ servers: ServersUnderTest, _ kakao: TestKakao) async throws {
        try await inParallel(plan) { sender in
            try kakao.sandbox.befriend(sender, plan.friends(of: sender))
            let answer = try await servers.caller(Int(sender) % plan.servers).logIn(sender, at: kakao)
            #expect(answer.status == 200, "\(answer.text)")
        }
    }

    /// Creates the messages of all senders. A request without a response is repeated, at the next server.
    private func create(_ plan: MessageCrashPlan, _ servers: ServersUnderTest, _ kakao: TestKakao) async throws {
        try await inParallel(plan) { sender in
            let body = plan.message(of: sender, kakao.sandbox)
            var attempt = 0
            try await eventually("the message of \(sender) is stored", within: .seconds(120)) {
                attempt += 1
                let caller = servers.caller((Int(sender) + attempt) % plan.servers)
                let answer = try? await caller.with(idempotencyKey: "of-\(sender)").post("/v1/messages", json: body)
                // The server of this request has ended, or has no database.
                guard let answer, answer.status != 503 else { return false }
                #expect(answer.status == 202, "\(answer.text)")
                return true
            }
        }
    }

    private func inParallel(
        _ plan: MessageCrashPlan,
        _ body: @escaping @Sendable (Int64) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 1...8 {
                group.addTask {
                    for sender in stride(from: worker, through: plan.senders, by: 8) { try await body(Int64(sender)) }
                }
            }
            try await group.waitForAll()
        }
    }
}

/// The size of the proof. `SENDERS=400` makes it the long one.
struct MessageCrashPlan {
    enum Event {
        case kill
        /// A server is stopped for longer than its lease.
        case stop
        case restartPostgres
    }

    static let friendsPerSender = 50
    let servers = 3
    let senders: Int
    let events: [Event]
    /// The lease under which receivers are sent.
    let lease: Duration
    private let requestsPerSecond: Int

    init() {
        let number = getenv("SENDERS").flatMap { Int(String(cString: $0)) }
        senders = number ?? 12
        lease = number == nil ? .seconds(2) : .seconds(20)
        // As long as the events take.
        requestsPerSecond = number == nil ? 10 : 40
        let short: [Event] = [.kill, .restartPostgres, .kill, .stop]
        let long: [Event] = [
            .kill, .kill, .stop, .kill, .kill, .restartPostgres, .kill, .kill, .stop, .kill, .kill, .kill, .kill,
        ]
        events = number == nil ? short : long
    }

    var receivers: Int { senders * Self.friendsPerSender }
    /// The receivers that are claimed when something happens.
    var receiversInFlight: Int { 10 }

    func friends(of sender: Int64) -> [Int64] {
        (1...Int64(Self.friendsPerSender)).map { sender * 1000 + $0 }
    }

    /// Every fourth sender accepts repetitions.
    static func isAtLeastOnce(_ sender: Int64) -> Bool { sender % 4 == 0 }

    /// The message of a sender to all friends, named by user id or by uuid.
    func message(of sender: Int64, _ kakao: KakaoSandbox) -> JSONValue {
        let friends = friends(of: sender)
        let receivers: JSONValue =
            sender.isMultiple(of: 2)
            ? ["users": .array(friends.map { .string(String($0)) })]
            : ["friends": .array(friends.map { .string(kakao.friendUUID(of: $0)) })]
        return [
            "sender": .string(String(sender)), "to": receivers, "template_id": 7,
            "delivery": Self.isAtLeastOnce(sender) ? "at_least_once" : "at_most_once",
        ]
    }

    func startServers(_ database: TestDatabase, _ kakao: TestKakao) async throws -> ServersUnderTest {
        var environment = RunningProgram.accountEnvironment(database, kakao)
        environment["LOG_LEVEL"] = "notice"
        environment["TALK_REQUESTS_PER_SECOND"] = String(requestsPerSecond)
        // Each attempt whose outcome is unknown counts, and a message that waits for the next day would not end.
        environment["TALK_QUOTA_SENDER"] = "1000"
        try kakao.sandbox.setTalkApp(["quotas": ["sender": 1000]])
        return try await .start(
            servers,
            ["--lease-milliseconds", String(lease.wholeMilliseconds)],
            environment: environment
        )
    }

    /// 5 % of the requests fail, 2 % of the connections are dropped after the body, half of them when the message has
    /// reached its receivers, and a third of the messages does not reach some of its receivers, each third of them for
    /// another reason. All responses take 100 ms, so that there are requests in flight at any time.
    var faults: [Fault] {
        func fault(
            _ kind: Fault.Kind,
            _ probability: Double,
            path: String = "/v1/api/talk/friends/message/send",
            _ adjust: (inout Fault) -> Void = { _ in }
        ) -> Fault {
            var fault = Fault(kind)
            fault.path = path
            fault.probability = probability
            adjust(&fault)
            return fault
        }
        return [
            fault(.latency, 1) { $0.milliseconds = 100 },
            fault(.status, 0.025) { ($0.status, $0.code) = (503, -9798) },
            fault(.anotherHost, 0.025) { $0.status = 503 },
            fault(.status, 0.05, path: "/v1/api/talk/friends") { $0.status = 503 },
            fault(.dropAfterBody, 0.01),
            fault(.dropAfterBody, 0.01) { $0.isCarriedOut = true },
            fault(.receivers, 0.125) { $0.code = -530 },
            fault(.receivers, 0.125) { $0.code = -502 },
            fault(.receivers, 0.125) { $0.code = -1 },
        ]
    }
}
