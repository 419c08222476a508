import FoundationEssentials
import Glibc
import Locking
import Subprocess
import SystemPackage

/// A program of this package that runs beside the test, with exactly the given environment.
package final class RunningProgram: Sendable {
    /// How a program ended.
    package enum Ending: Equatable, Sendable {
        case exited(Int32)
        case signaled(Int32)
    }

    private struct State {
        var lines: [String] = []
        var ending: Ending?
    }

    package let processIdentifier: Int32
    private let output: Output
    private let task: Task<Void, Never>

    /// The program's output, and how it ended.
    private final class Output: Sendable {
        let state = Locked(State())
    }

    private init(processIdentifier: Int32, output: Output, task: Task<Void, Never>) {
        self.processIdentifier = processIdentifier
        self.output = output
        self.task = task
    }

    /// The lines that the program has printed, to standard output and standard error.
    package var lines: [String] { output.state.withLock { $0.lines } }

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - name: The name of the program: `push-server`.
    ///   - limit: The arguments of `ulimit`; `nil` for the limits of the tests.
    /// - Throws: ``NotStarted`` when the program cannot be started.
    package static func start(
        _ name: String,
        _ arguments: [String],
        environment: [String: String],
        limit: String? = nil
    ) async throws -> RunningProgram {
        let limit = limit.map { "ulimit \($0) && " } ?? ""
        let words = ["-c", limit + "exec \"$0\" \"$@\"", try Program.path(name)] + arguments
        // A program with a sanitizer has the suppressions of the tests.
        let sanitizers = ProcessInfo.processInfo.environment.filter {
            $0.key == "TSAN_OPTIONS" || $0.key == "ASAN_OPTIONS"
        }
        let variables = environment.merging(sanitizers) { given, _ in given }.asEnvironment
        let output = Output()
        let (started, continuation) = AsyncStream<Int32>.makeStream()
        let task = Task.detached {
            defer { continuation.finish() }
            do {
                let result = try await Subprocess.run(
                    .path("/bin/sh"),
                    arguments: Arguments(words),
                    environment: .custom(variables),
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
                let ending = Ending(result.terminationStatus)
                output.state.withLock { $0.ending = ending }
            } catch {
                output.state.withLock { $0.lines.append("\(error)") }
            }
        }
        var iterator = started.makeAsyncIterator()
        guard let processIdentifier = await iterator.next() else {
            throw NotStarted(lines: output.state.withLock { $0.lines })
        }
        return RunningProgram(processIdentifier: processIdentifier, output: output, task: task)
    }

    /// Whether the program has ended.
    package var hasEnded: Bool { output.state.withLock { $0.ending != nil } }

    package func send(_ signal: Int32) {
        kill(processIdentifier, signal)
    }

    /// Waits until the program has ended. Returns how it ended, or `nil` if that is unknown.
    package func ended() async -> Ending? {
        await task.value
        return output.state.withLock { $0.ending }
    }

    /// Runs `body`, then kills the program if it is still running.
    package func whileRunning(_ body: () async throws -> Void) async throws {
        do {
            try await body()
        } catch {
            await end()
            throw error
        }
        await end()
    }

    /// Kills the program if it is running, and waits until it has ended.
    private func end() async {
        // Must not kill the program twice: its process number may belong to another process by then.
        if output.state.withLock({ $0.ending }) == nil { send(SIGKILL) }
        _ = await ended()
    }

    /// The program could not be started.
    package struct NotStarted: Error {
        package let lines: [String]
    }
}

extension RunningProgram.Ending {
    fileprivate init(_ status: TerminationStatus) {
        switch status {
        case .exited(let code): self = .exited(code)
        case .signaled(let signal): self = .signaled(signal)
        }
    }
}
