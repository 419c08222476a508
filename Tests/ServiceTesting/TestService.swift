import Crypto
import Endpoints
import EventLoop
import HTTPClient
import HTTPServer
package import KakaoSandbox
package import LogOutput
import Logging
package import PrivatePostgres
import Pushes
package import Runtime
package import Server
import ServiceLifecycle
package import TestSupport

@testable import Identity
@testable import Settings

/// A server in this process, as `push-server serve` runs it.
package final class RunningServer: Sendable {
    /// The address that Kakao and apps call.
    package let url: String
    /// The address that operators call: another one with `http.operator_port`.
    package let operatorURL: String
    private let server: PushServer
    private let group: ServiceGroup
    private let task: Task<Void, any Error>

    private init(_ server: PushServer, group: ServiceGroup, task: Task<Void, any Error>) {
        self.server = server
        url = "http://127.0.0.1:\(server.port)"
        operatorURL = "http://127.0.0.1:\(server.operatorPort ?? server.port)"
        self.group = group
        self.task = task
    }

    /// Starts a server.
    ///
    /// - Parameters:
    ///   - settings: The settings of the server.
    ///   - log: The destination of the server's log.
    ///   - sink: The sink whose dropped lines the server counts.
    ///   - awaitsDatabase: Whether to wait until the server is ready; else it only listens.
    package static func start(
        _ settings: Settings,
        log: CollectedLog,
        sink: LogSink? = nil,
        awaitsDatabase: Bool = true
    ) async throws -> RunningServer {
        let (ready, continuation) = AsyncStream<Void>.makeStream()
        // Two loops unless the test sets them, regardless of the number of cores, since connections to PostgreSQL are
        // expensive.
        let server = try PushServer(
            settings: settings,
            migrations: TestFiles.migrations,
            logger: log.logger,
            logSink: sink,
            loopCount: settings.loops ?? 2
        ) { _ in continuation.yield() }
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(services: [server], logger: quietLogger)
        )
        let task = Task {
            defer { continuation.finish() }
            try await group.run()
        }
        if awaitsDatabase {
            var iterator = ready.makeAsyncIterator()
            // The stream ends without an element if the server has ended instead. Its task then throws the reason.
            if await iterator.next() == nil { try await task.value }
        }
        return RunningServer(server, group: group, task: task)
    }

    /// Reloads the settings, as SIGHUP does.
    package func reload(_ settings: Settings) async {
        await server.reload { settings }
    }

    /// Stops the server as SIGTERM does, and waits until it has ended.
    package func stop() async throws {
        await group.triggerGracefulShutdown()
        try await task.value
    }

    /// Runs `body` with a server, and stops the server afterwards.
    package static func with(
        _ settings: Settings,
        log: CollectedLog = CollectedLog(),
        _ body: (TestClient) async throws -> Void
    ) async throws {
        try await run(settings, log: log) { server in try await body(TestClient(url: server.operatorURL)) }
    }

    /// Runs `body` with a server and its addresses, and stops the server afterwards.
    package static func run(
        _ settings: Settings,
        log: CollectedLog = CollectedLog(),
        _ body: (RunningServer) async throws -> Void
    ) async throws {
        let server = try await start(settings, log: log)
        do {
            try await body(server)
        } catch {
            try? await server.stop()
            throw error
        }
        try await server.stop()
    }
}

extension Settings {
    /// Returns the settings of a test server, which has a port of the kernel's choice and the sandbox as Kakao.
    package static func test(_ database: String, kakao: String) -> Settings {
        var settings = Settings(
            databaseURL: Secret(database),
            operatorKey: Secret(Keys.operator),
            adminKey: Secret(Keys.admin)
        )
        settings.http.port = 0
        settings.drainTime = .zero
        settings.kakao.apiURL = kakao
        // A test that holds Kakao's responses back determines when they arrive, however long it takes until then.
        settings.kakao.callTimeout = .seconds(600)
        // Otherwise each server calls Kakao once at its start, and a test that makes calls fail would meet that one.
        settings.kakao.sourceAddresses = .off
        settings.identity.feedbackSecret = Secret(Keys.feedback)
        settings.publicURL = .own(host: settings.http.host)
        return settings
    }
}

extension Slots {
    /// The slots of tests with a server. Each server has its own event loops and connections to PostgreSQL.
    package static let servers = Slots(8)
}

/// The environment of a single test: a database, a sandbox as Kakao, and a server.
package struct TestService: Sendable {
    package let database: TestDatabase
    package let kakao: TestKakao
    package let settings: Settings
    package let server: RunningServer
    /// A client of the server with the operator key.
    package let api: TestClient
    package let log: CollectedLog

    package init(database: TestDatabase, kakao: TestKakao, settings: Settings, server: RunningServer, log: CollectedLog)
    {
        self.database = database
        self.kakao = kakao
        self.settings = settings
        self.server = server
        api = TestClient(url: server.operatorURL)
        self.log = log
    }

    /// Adds a phone for each of these users, sends to them, and returns the path of the push.
    package func push(_ userIDs: [Int64], marker: String = "", version: String = "v1") async throws -> String {
        try await database.addPhones(userIDs)
        return try await api.push(userIDs, marker: marker, version: version)
    }
}

/// Runs `body` with a database and a sandbox, but without a server.
package func withDatabaseAndKakao(
    _ content: TestDatabase.Content = .schema,
    sandbox: KakaoSandboxSettings = KakaoSandboxSettings(),
    _ body: (TestDatabase, TestKakao) async throws -> Void
) async throws {
    try await Slots.servers.with {
        try await TestDatabase.with(content) { database in
            try await TestKakao.with(sandbox) { kakao in try await body(database, kakao) }
        }
    }
}

/// Runs `body` with a PostgreSQL server that the test may stop, its URL, and a sandbox.
///
/// - Parameter settings: Settings of PostgreSQL.
package func withClusterAndKakao(
    _ settings: [String: String] = [:],
    _ body: (PostgresCluster, String, TestKakao) async throws -> Void
) async throws {
    try await Slots.servers.with {
        try await TestCluster.with(settings) { cluster, url in
            try await TestKakao.with { kakao in try await body(cluster, url, kakao) }
        }
    }
}

/// Runs `body` with a PostgreSQL server, a standby of it, and a sandbox.
///
/// - Parameter isSynchronous: Whether commits wait for the standby.
package func withStandbyAndKakao(
    isSynchronous: Bool = false,
    _ body: (TestPair, TestKakao) async throws -> Void
) async throws {
    try await Slots.servers.with {
        try await TestCluster.withStandby(isSynchronous: isSynchronous) { pair in
            try await TestKakao.with { kakao in try await body(pair, kakao) }
        }
    }
}

/// Runs `body` with a server, its database and its sandbox.
package func withService(
    _ adjust: (inout Settings) -> Void = { _ in },
    intervals: WorkIntervals = WorkIntervals(),
    sandbox: KakaoSandboxSettings = KakaoSandboxSettings(),
    _ body: (TestService) async throws -> Void
) async throws {
    try await withDatabaseAndKakao(sandbox: sandbox) { database, kakao in
        var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
        settings.pushes.intervals = intervals
        adjust(&settings)
        let log = CollectedLog()
        try await RunningServer.run(settings, log: log) { server in
            kakao.sandbox.sendCallbacks(to: server.url)
            // A remaining fault would delay the server's shutdown.
            defer { kakao.endFaults() }
            try await body(
                TestService(database: database, kakao: kakao, settings: settings, server: server, log: log)
            )
        }
    }
}

/// Runs `body` with a server that all such tests of a process share, because starting one costs more than most tests. It
/// has the settings of ``Settings/test(_:kakao:)`` and runs until the process ends.
///
/// `body` only reads, or makes requests that are rejected. It must not change what another test could see (rows, settings,
/// the sandbox's users and faults), must not present invalid keys, for which its address would have to wait, and must not
/// look at the log or at metrics, which have those of other tests too.
package func withSharedService(_ body: (TestService) async throws -> Void) async throws {
    try await SharedService.ofAllSuites.with(body)
}

/// A server that tests share, as ``withSharedService(_:)`` describes. A suite whose tests count rows or calls has one of its
/// own.
package struct SharedService: Sendable {
    fileprivate static let ofAllSuites = SharedService()

    private let service = Task.detached {
        let database = try await TestDatabase.create().database
        let kakao = try TestKakao.start(loops: EventLoopGroup(count: 1))
        let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
        let log = CollectedLog()
        let server = try await RunningServer.start(settings, log: log)
        return TestService(database: database, kakao: kakao, settings: settings, server: server, log: log)
    }

    /// Starts a server in the background.
    package init() {}

    package func with(_ body: (TestService) async throws -> Void) async throws {
        try await body(service.value)
    }
}

/// Runs `body` with a server that accepts access tokens of Kakao Login.
package func withKakaoLogin(
    _ adjust: (inout Settings) -> Void = { _ in },
    _ body: (TestService) async throws -> Void
) async throws {
    try await withService(
        { settings in
            settings.kakao.appID = 123_456
            settings.identity.acceptsKakaoAccessTokens = true
            adjust(&settings)
        },
        body
    )
}
