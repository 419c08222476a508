import Glibc
import Locking
import Subprocess
import SystemPackage

/// A running server under test.
final class ServerProcess: Sendable {
    private struct State {
        var lines: [String] = []
        var hasEnded = false
    }

    private static let maximumLines = 20_000

    let processIdentifier: Int32
    /// The base URL of the server's API.
    let url: String
    private let state: Locked<State>
    private let task: Task<Void, Never>

    private init(processIdentifier: Int32, url: String, state: Locked<State>, task: Task<Void, Never>) {
        self.processIdentifier = processIdentifier
        self.url = url
        self.state = state
        self.task = task
    }

    /// The lines of the server's output, at most 20,000.
    var lines: [String] { state.withLock { $0.lines } }
    var hasEnded: Bool { state.withLock { $0.hasEnded } }

    /// Starts a server and waits until it is ready.
    ///
    /// - Parameters:
    ///   - lease: The sender's lease; `nil` for that of production.
    ///   - onLaunch: Called with the server's process id as soon as it is launched.
    /// - Throws: ``NotStarted`` if the server ends before it is ready.
    static func start(
        environment: [String: String],
        migrations: String,
        lease: Duration?,
        onLaunch: @escaping @Sendable (Int32) -> Void
    ) async throws -> ServerProcess {
        var variables: [Environment.Key: String] = [:]
        for (name, value) in environment {
            if let key = Environment.Key(rawValue: name) { variables[key] = value }
        }
        var command = ["serve-under-test", "--migrations", migrations]
        if let lease { command += ["--lease-milliseconds", String(lease.milliseconds)] }
        // The kernel kills the server when this process ends for any reason.
        let arguments = Arguments(["--pdeathsig", "KILL", "--", Executable.path] + command)
        let given = variables
        let state = Locked(State())
        let (events, event) = AsyncStream<Event>.makeStream()
        let task = Task.detached {
            do {
                _ = try await Subprocess.run(
                    .name("setpriv"),
                    arguments: arguments,
                    environment: .custom(given),
                    input: .none,
                    output: .sequence,
                    error: .combinedWithOutput
                ) { execution in
                    event.yield(.launched(execution.processIdentifier.value))
                    for try await line in execution.standardOutput.strings() {
                        state.withLock { if $0.lines.count < maximumLines { $0.lines.append(line) } }
                        guard line.hasPrefix(ServeUnderTest.readyPrefix) else { continue }
                        event.yield(.ready(port: String(line.dropFirst(ServeUnderTest.readyPrefix.count))))
                    }
                }
            } catch {
                state.withLock { $0.lines.append("\(error)") }
            }
            state.withLock { $0.hasEnded = true }
            event.finish()
        }
        var process: Int32?
        for await event in events {
            switch event {
            case .launched(let identifier):
                process = identifier
                onLaunch(identifier)
            case .ready(let port):
                guard let process else { continue }
                let url = "http://127.0.0.1:\(port)"
                return ServerProcess(processIdentifier: process, url: url, state: state, task: task)
            }
        }
        throw NotStarted(lines: state.withLock { $0.lines })
    }

    /// Kills the server and waits for its end.
    func end() async {
        if !hasEnded {
            kill(processIdentifier, SIGKILL)
        }
        await task.value
    }

    private enum Event: Sendable {
        case launched(Int32)
        case ready(port: String)
    }

    struct NotStarted: Error, CustomStringConvertible {
        let lines: [String]
        var description: String { "A server under test did not start:\n" + lines.suffix(20).joined(separator: "\n") }
    }
}

/// The path of this program's executable.
enum Executable {
    static var path: String {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        return count > 0 ? String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self) : ""
    }
}

extension Duration {
    var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }

    /// The duration in seconds, with a fraction.
    var inSeconds: Double {
        let (seconds, attoseconds) = components
        return Double(seconds) + Double(attoseconds) / 1e18
    }
}
