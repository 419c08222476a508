import EventLoop
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Locking
import Postgres
import Runtime

/// A worker's own database, proxy, sandbox and servers, through which it runs one push after another.
final class Rig: Sendable {
    private static let operatorKey = "operator-key-of-the-proof-0123456789"

    private let testbed: Testbed
    private let lease: Duration?
    private let logsFolder: String
    private let sandbox: KakaoSandbox
    private let database: String
    private let pool: PostgresPool
    private let proxy: PostgresProxy
    private let kakaoProxy: KakaoProxy
    /// The running servers by number.
    private let servers = Locked<[Int: ServerProcess]>([:])
    /// The number of times that each earlier run had reached users when it was checked.
    private let reached = Locked<[(run: Run, times: Int)]>([])

    /// - Parameters:
    ///   - lease: The sender's lease; `nil` for the intervals of production.
    ///   - logsFolder: The directory for the logs of runs with violations.
    init(testbed: Testbed, lease: Duration?, logsFolder: String) async throws {
        self.testbed = testbed
        self.lease = lease
        self.logsFolder = logsFolder
        var settings = KakaoSandboxSettings()
        settings.maximumDeliveries = 100
        sandbox = try KakaoSandbox(settings: settings, loops: testbed.kakaoLoops)
        sandbox.start()
        (database, pool) = try await testbed.makeDatabase()
        proxy = try PostgresProxy(loop: testbed.loop, upstream: testbed.upstream, servers: 2)
        proxy.start()
        kakaoProxy = try KakaoProxy(
            loop: testbed.loop,
            upstream: sandbox.url.split(separator: ":").last.flatMap { Int($0) } ?? 0
        )
        kakaoProxy.start()
    }

    /// Ends the servers and removes the database.
    func close() async {
        for server in servers.withLock({ $0 }).values { await server.kill() }
        proxy.shutdown()
        kakaoProxy.shutdown()
        await sandbox.shutdown()
        await pool.shutdown()
        try? await testbed.dropDatabase(database)
    }

    // MARK: Servers

    /// Starts or ends servers until exactly `count` run.
    private func runServers(_ count: Int) async throws {
        for number in 0..<proxy.ports.count {
            let server = servers.withLock { $0[number] }
            if number >= count {
                await server?.kill()
                servers.withLock { $0[number] = nil }
                proxy.setProcess(nil, of: number)
            } else if await server?.hasEnded ?? true {
                try await startServer(number)
            }
        }
    }

    private func startServer(_ number: Int) async throws {
        let environment = [
            "DATABASE_URL": "postgres://postgres@127.0.0.1:\(proxy.ports[number])/\(database)?sslmode=disable",
            "OPERATOR_KEY": Self.operatorKey,
            "KAKAO_ADMIN_KEY": KakaoSandboxSettings().adminKey,
            "KAKAO_API_URL": "http://127.0.0.1:\(kakaoProxy.port)",
            "KAKAO_MAX_CONCURRENT_REQUESTS": String(Scenario.maximumConcurrentRequests),
            "HTTP_PORT": "0",
            "HTTP_DRAIN_SECONDS": "0",
            "LOG_LEVEL": "info",
        ]
        func start() async throws -> ServerProcess {
            try await ServerProcess.start(environment: environment, migrations: testbed.migrations, lease: lease) {
                [proxy] process in proxy.setProcess(process, of: number)
            }
        }
        let server: ServerProcess
        do {
            server = try await start()
        } catch is ServerProcess.NotStarted {
            // A fault may kill the server once while it starts.
            server = try await start()
        }
        servers.withLock { $0[number] = server }
    }

    /// Restarts killed servers.
    private func restartEnded() async throws {
        for (number, server) in servers.withLock({ $0 }) where await server.hasEnded {
            try await startServer(number)
        }
    }

    // MARK: Runs

    /// Sends a push while the run's fault is armed, and checks the invariants.
    func perform(_ run: Run) async throws -> RunResult {
        try await runServers(run.servers)
        let start = ContinuousClock.now
        let linesBefore = servers.withLock { $0.mapValues { (process: $0.processIdentifier, count: $0.lines.count) } }
        Scenario.arm(sandbox, hasRateLimit: !run.isRealTime)
        proxy.startRun(lease: run.lease, run.allArmed.filter { !$0.fault.isOfKakao })
        kakaoProxy.startRun(run.armed.flatMap { $0.fault.isOfKakao ? $0 : nil })
        var violations: [String] = []
        var record: [(point: Point, key: StatementKey)] = []
        do {
            let push = try await create(run)
            try await waitForEnd(push, run)
            record = proxy.record
            let invariants = Invariants(run: run, sandbox: sandbox, pool: pool) { try await self.get($0) }
            violations = try await invariants.violations(of: push)
        } catch {
            violations.append("\(error)")
        }
        proxy.disarm()
        reached.withLock { $0.append((run, sandbox.reached(marker: Invariants.marker(of: run)).times)) }
        violations += lateSends()
        var result = RunResult(
            run: run,
            hit: hit(run),
            violations: violations,
            record: record,
            sends: kakaoProxy.sends,
            duration: ContinuousClock.now - start
        )
        if !violations.isEmpty {
            result.logs = try storeLogs(of: run, since: linesBefore)
        }
        return result
    }

    private func hit(_ run: Run) -> String? {
        guard let armed = run.armed else { return nil }
        guard armed.fault.isOfKakao else { return proxy.hit(by: armed)?.description }
        return kakaoProxy.isHit ? "send \(armed.point.occurrence)" : nil
    }

    /// Returns a sentence for each earlier run whose users were sent to after its end. This reveals a server that did
    /// not notice the loss of its lease.
    private func lateSends() -> [String] {
        reached.withLock { reached in
            var found: [String] = []
            for index in reached.indices {
                let times = sandbox.reached(marker: Invariants.marker(of: reached[index].run)).times
                guard times != reached[index].times else { continue }
                found.append("a push was sent to users of an earlier run (\(reached[index].run)) after its end")
                reached[index].times = times
            }
            return found
        }
    }

    /// Creates the push, and retries until a server accepts it. The idempotency key prevents duplicates.
    private func create(_ run: Run) async throws -> String {
        let body: JSONValue = .object([
            "audience": .object(["everyone": true]),
            "delivery": .string(run.delivery.rawValue),
            "message": .object([
                "for_gcm": .object(["custom_field": .object(["marker": .string(Invariants.marker(of: run))])])
            ]),
        ])
        var id: String?
        var attempt = 0
        try await waitUntil("a server accepts the push", within: run.limit) {
            try await restartEnded()
            let running = servers.withLock { $0.sorted { $0.key < $1.key }.map(\.value) }
            guard !running.isEmpty else { return false }
            var request = HTTPClientRequest(
                method: .post,
                url: running[(run.number + attempt) % running.count].url + "/v1/pushes",
                headerFields: [.authorization: "Bearer \(Self.operatorKey)", .contentType: "application/json"],
                body: body.bytes(),
                totalTimeout: .seconds(3)
            )
            if let name = HTTPField.Name("Idempotency-Key") { request.headerFields[name] = "run-\(run.number)" }
            attempt += 1
            guard let response = try? await testbed.client.send(request) else { return false }
            guard response.status == 202 else {
                guard response.status < 500 else { return false }
                throw Unexpected(what: "POST /v1/pushes", response)
            }
            id = try JSONValue(parsing: response.body)["id"]?.string
            return id != nil
        }
        return id ?? ""
    }

    /// Waits until the push has ended, the fault is over, and the database has no open work.
    private func waitForEnd(_ push: String, _ run: Run) async throws {
        var state = Invariants.OpenWork()
        do {
            try await waitUntil("the push ends", within: run.limit) {
                try await restartEnded()
                state = try await Invariants.openWork(of: push, pool)
                return state.isDone && !proxy.isActive
            }
        } catch is TimedOut {
            throw TimedOut(what: "the push ends: \(state)", limit: run.limit)
        }
    }

    /// Sends a GET request to the servers in turn until one responds with 200. Returns the body.
    private func get(_ path: String) async throws -> JSONValue {
        var value: JSONValue?
        try await waitUntil("a server responds to GET \(path)", within: .seconds(20)) {
            try await restartEnded()
            for server in servers.withLock({ $0 }).values {
                let request = HTTPClientRequest(
                    url: server.url + path,
                    headerFields: [.authorization: "Bearer \(Self.operatorKey)"],
                    totalTimeout: .seconds(5)
                )
                guard let response = try? await testbed.client.send(request), response.status == 200 else { continue }
                value = try JSONValue(parsing: response.body)
                return true
            }
            return false
        }
        return value ?? .null
    }

    private struct Unexpected: Error, CustomStringConvertible {
        let description: String

        init(what: String, _ response: HTTPClientResponse) {
            description = "\(what): \(response.status) \(String(decoding: response.body.prefix(300), as: UTF8.self))"
        }
    }

    /// Writes the servers' log lines since the start of the run. Returns the files.
    private func storeLogs(of run: Run, since: [Int: (process: Int32, count: Int)]) throws -> [String] {
        try FileManager.default.createDirectory(atPath: logsFolder, withIntermediateDirectories: true)
        return try servers.withLock { $0 }.sorted { $0.key < $1.key }.map { number, server in
            // A restarted server has written its whole log in this run.
            let skipped = since[number].map { $0.process == server.processIdentifier ? $0.count : 0 } ?? 0
            let lines = server.lines.dropFirst(skipped)
            let file = "\(logsFolder)/run-\(run.number)-server-\(number + 1).log"
            let text = "\(run)\n" + lines.joined(separator: "\n") + "\n"
            try Data(text.utf8).write(to: URL(filePath: file))
            return file
        }
    }
}
