import Glibc
import HTTPClient
import KakaoSandbox
import Locking
import Subprocess
import SystemPackage
import Testing

/// `push-server` as a process of its own, with nothing but environment variables.
final class ServerProcess: Sendable {
    private struct State {
        var lines: [String] = []
        var status: TerminationStatus?
    }

    let processIdentifier: Int32
    private let output: Output
    private let task: Task<Void, Never>

    /// What it has printed, and how it ended.
    private final class Output: Sendable {
        let state = Locked(State())
    }

    private init(processIdentifier: Int32, output: Output, task: Task<Void, Never>) {
        self.processIdentifier = processIdentifier
        self.output = output
        self.task = task
    }

    /// The lines of its log.
    var lines: [String] { output.state.withLock { $0.lines } }

    /// Starts it.
    ///
    /// - Parameters:
    ///   - command: What comes after the program's name.
    ///   - descriptors: `ulimit -n`; `nil` for what the tests have.
    static func start(
        _ command: [String] = ["serve"],
        environment: [String: String],
        descriptors: Int? = nil
    ) async throws -> ServerProcess {
        let limit = descriptors.map { "ulimit -n \($0) && " } ?? ""
        let arguments = ["-c", limit + "exec \"$0\" \"$@\"", try TestFiles.program("push-server")] + command
        var variables: [Environment.Key: String] = [:]
        for (name, value) in environment {
            if let key = Environment.Key(rawValue: name) { variables[key] = value }
        }
        let given = variables
        let output = Output()
        let (started, continuation) = AsyncStream<Int32>.makeStream()
        let task = Task.detached {
            defer { continuation.finish() }
            do {
                let result = try await Subprocess.run(
                    .path("/bin/sh"),
                    arguments: Arguments(arguments),
                    environment: .custom(given),
                    workingDirectory: "/",
                    input: .none,
                    output: .sequence,
                    error: .combinedWithOutput
                ) { execution in
                    continuation.yield(execution.processIdentifier.value)
                    for try await line in execution.standardOutput.strings() {
                        output.state.withLock { $0.lines.append(line) }
                    }
                }
                let status = result.terminationStatus
                output.state.withLock { $0.status = status }
            } catch {
                output.state.withLock { $0.lines.append("\(error)") }
            }
        }
        var iterator = started.makeAsyncIterator()
        guard let processIdentifier = await iterator.next() else {
            throw NotStarted(lines: output.state.withLock { $0.lines })
        }
        return ServerProcess(processIdentifier: processIdentifier, output: output, task: task)
    }

    /// Waits until it listens, and returns the address.
    func address() async throws -> String {
        let name = "address="
        var address: Substring?
        try await eventually("the server listens: \(lines)") {
            address = lines.first { $0.contains("Listening") }?.split(separator: " ").first { $0.hasPrefix(name) }
            return address != nil
        }
        return String(address?.dropFirst(name.count) ?? "")
    }

    /// Waits until it can do its work, and returns its URL.
    func url() async throws -> String {
        let url = "http://\(try await address())"
        try await eventually("the server is ready: \(lines)") {
            try await Caller(url: url).get("/readyz").status == 200
        }
        return url
    }

    func send(_ signal: Int32) {
        kill(processIdentifier, signal)
    }

    /// Waits until it has ended and tells how.
    func ended() async -> TerminationStatus? {
        await task.value
        return output.state.withLock { $0.status }
    }

    /// Runs `body` with it, and sees to it that it is gone afterwards.
    static func with(
        environment: [String: String],
        descriptors: Int? = nil,
        _ body: (ServerProcess, Caller) async throws -> Void
    ) async throws {
        let process = try await start(environment: environment, descriptors: descriptors)
        do {
            try await body(process, Caller(url: process.url()))
        } catch {
            process.send(SIGKILL)
            _ = await process.ended()
            throw error
        }
        // Not to be killed twice: the number may be somebody else's by then.
        if process.output.state.withLock({ $0.status }) == nil { process.send(SIGKILL) }
        _ = await process.ended()
    }

    /// The variables of a server, by the names in the design's table of settings.
    static func environment(_ database: TestDatabase, _ kakao: TestKakao) -> [String: String] {
        [
            "DATABASE_URL": database.url,
            "OPERATOR_KEY": Keys.operator,
            "KAKAO_ADMIN_KEY": Keys.admin,
            "KAKAO_API_URL": kakao.sandbox.url,
            "FEEDBACK_SECRET": Keys.feedback,
            "HTTP_PORT": "0",
            "LOG_LEVEL": "trace",
        ]
    }

    private struct NotStarted: Error {
        let lines: [String]
    }
}
