import ChildProcess
import EventLoop
import FoundationEssentials
import Locking
import Subprocess

/// A running server under test.
final class ServerProcess: Sendable {
    private static let maximumLines = 20_000
    /// The time limit of a start, longer than any fault makes the database unreachable.
    private static let startTimeout = Duration.seconds(300)
    private static let killTimeout = Duration.seconds(60)

    let processIdentifier: Int32
    /// The base URL of the server's API.
    let url: String
    private let process: ChildProcess
    private let output: Locked<[String]>

    private init(processIdentifier: Int32, url: String, process: ChildProcess, output: Locked<[String]>) {
        self.processIdentifier = processIdentifier
        self.url = url
        self.process = process
        self.output = output
    }

    /// The lines of the server's output, at most 20,000.
    var lines: [String] { output.withLock { $0 } }

    var hasEnded: Bool {
        get async { await process.phase == .ended }
    }

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
        if let lease { command += ["--lease-milliseconds", String(lease.wholeMilliseconds)] }
        // The kernel kills the server when this process ends for any reason.
        let arguments = Arguments(["--pdeathsig", "KILL", "--", Executable.path] + command)
        let output = Locked<[String]>([])
        let process = ChildProcess(
            isReady: { $0.hasPrefix(ServeUnderTest.readyPrefix) },
            onLine: { line in output.withLock { if $0.count < maximumLines { $0.append(line) } } }
        )
        process.launch(.name("setpriv"), arguments, environment: .custom(variables), onLaunch: onLaunch)
        guard case .ready(let line) = await process.waitUntilReady(within: startTimeout),
            let identifier = await process.processIdentifier
        else {
            await process.end(with: .kill, within: killTimeout)
            throw NotStarted(lines: output.withLock { $0 })
        }
        let url = "http://127.0.0.1:\(line.dropFirst(ServeUnderTest.readyPrefix.count))"
        return ServerProcess(processIdentifier: identifier, url: url, process: process, output: output)
    }

    /// Kills the server and waits for its end.
    func kill() async {
        await process.end(with: .kill, within: Self.killTimeout)
    }

    struct NotStarted: Error, CustomStringConvertible {
        let lines: [String]
        var description: String { "A server under test did not start:\n" + lines.suffix(20).joined(separator: "\n") }
    }
}

/// The path of this program's executable.
enum Executable {
    static var path: String {
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
    }
}
