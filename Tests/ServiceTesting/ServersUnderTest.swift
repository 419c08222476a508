package import FoundationEssentials
import Glibc
import KakaoSandbox
import Locking
import TestSupport

/// Some servers on one database, as separate processes that a test kills, stops and starts again.
package final class ServersUnderTest: Sendable {
    private struct State {
        var processes: [RunningProgram] = []
        var ended: [RunningProgram] = []
        var urls: [String] = []
        var killed: [Date] = []
        var stopped: [Date] = []
    }

    private let options: [String]
    private let environment: [String: String]
    private let state = Locked(State())

    private init(options: [String], environment: [String: String]) {
        self.options = options
        self.environment = environment
    }

    /// Starts servers and waits until they are ready.
    ///
    /// - Parameter options: The options of `delivery-proof serve-under-test`.
    package static func start(
        _ count: Int,
        _ options: [String],
        environment: [String: String]
    ) async throws -> ServersUnderTest {
        let servers = ServersUnderTest(options: options, environment: environment)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<count {
                group.addTask {
                    let (process, url) = try await servers.startProcess()
                    servers.state.withLock {
                        $0.processes.append(process)
                        $0.urls.append(url)
                    }
                }
            }
            try await group.waitForAll()
        }
        return servers
    }

    private func startProcess() async throws -> (RunningProgram, url: String) {
        let process = try await RunningProgram.start(
            "delivery-proof",
            ["serve-under-test", "--migrations", TestFiles.migrations] + options,
            environment: environment
        )
        return (process, try await process.url())
    }

    /// The times at which servers were killed and stopped.
    package var killed: [Date] { state.withLock { $0.killed } }
    package var stopped: [Date] { state.withLock { $0.stopped } }

    /// The lines that all servers have logged.
    package var lines: [String] { state.withLock { $0.ended + $0.processes }.flatMap(\.lines) }

    package func caller(_ number: Int) -> TestClient { TestClient(url: state.withLock { $0.urls[number] }) }

    /// Kills a server and waits until it has ended.
    package func kill(_ number: Int) async {
        let process = state.withLock { state in
            state.killed.append(Date())
            state.processes[number].send(SIGKILL)
            return state.processes[number]
        }
        _ = await process.ended()
    }

    /// Starts a killed server again, on another port.
    package func restart(_ number: Int) async throws {
        let (process, url) = try await startProcess()
        state.withLock {
            $0.ended.append($0.processes[number])
            $0.processes[number] = process
            $0.urls[number] = url
        }
    }

    package func stop(_ number: Int) {
        state.withLock {
            $0.stopped.append(Date())
            $0.processes[number].send(SIGSTOP)
        }
    }

    package func `continue`(_ number: Int) { state.withLock { $0.processes[number].send(SIGCONT) } }

    /// Kills the servers that run.
    package func end() async {
        for process in state.withLock({ $0.processes }) { try? await process.whileRunning {} }
    }
}

extension RunningProgram {
    /// Returns the environment variables of a server that keeps accounts, with the sandbox as Kakao.
    package static func accountEnvironment(_ database: TestDatabase, _ kakao: TestKakao) -> [String: String] {
        var environment = environment(database, kakao)
        environment["KAKAO_APP_ID"] = "123456"
        environment["KAKAO_AUTH_URL"] = kakao.sandbox.url
        environment["KAKAO_REST_API_KEY"] = "sandbox-rest-api-key"
        environment["KAKAO_NATIVE_APP_KEY"] = "sandbox-native-app-key"
        environment["KAKAO_CLIENT_SECRET"] = "sandbox-client-secret"
        environment["ACCOUNTS_ENCRYPTION_KEY"] = Data(repeating: 7, count: 32).base64EncodedString()
        return environment
    }
}
