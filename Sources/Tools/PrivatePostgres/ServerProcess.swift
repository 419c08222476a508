import Glibc
import Subprocess
import SystemPackage

/// A single run of the server, from its start to its end.
actor ServerProcess {
    enum Phase: Equatable {
        /// The server does not accept connections yet. Can transition to `ready`, `ended`.
        case starting
        /// The server accepts connections. Can transition to `ended`.
        case ready
        case ended
    }

    /// The message of a server that accepts connections. It is in English, because `lc_messages` is C.
    private static let readyMessage = "database system is ready to accept connections"
    /// The number of lines that are kept to explain a failure.
    private static let keptLines = 12

    private let signals: AsyncStream<Signal>.Continuation
    private let incomingSignals: AsyncStream<Signal>
    private let onLine: @Sendable (String) -> Void
    private var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    private var nextWaiter = 0

    private(set) var phase = Phase.starting
    private(set) var processIdentifier: Int32?
    private(set) var lastLines: [String] = []

    init(onLine: @escaping @Sendable (String) -> Void) {
        self.onLine = onLine
        (incomingSignals, signals) = AsyncStream.makeStream(of: Signal.self)
    }

    /// Starts the server.
    nonisolated func launch(_ program: Program, _ arguments: [String]) throws(PrivatePostgresError) {
        let (executable, arguments) = try program.command(arguments, endsWithUs: true)
        // Detached, so that cancellation of the caller does not end the server.
        Task.detached { [incomingSignals] in
            do {
                _ = try await Subprocess.run(
                    executable,
                    arguments: arguments,
                    environment: Program.environment,
                    workingDirectory: FilePath("/"),
                    platformOptions: Program.options,
                    input: .none,
                    output: .sequence,
                    error: .combinedWithOutput
                ) { execution in
                    await self.launched(execution.processIdentifier.value)
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        group.addTask {
                            for await signal in incomingSignals { try? execution.send(signal: signal) }
                        }
                        // The output ends when the server and all its child processes have closed the pipe.
                        for try await line in execution.standardOutput.strings() { await self.received(line) }
                        group.cancelAll()
                    }
                }
            } catch {
                await self.received("\(error)")
            }
            await self.moved(to: .ended)
        }
    }

    /// Waits until the server accepts connections, has ended, or the time is up. Returns its phase.
    func waitUntilReady(within bound: Duration) async -> Phase {
        await wait(within: bound) { $0 != .starting }
        return phase
    }

    /// Sends a signal to the server and waits for its end. Returns whether it ended in time.
    func end(with signal: Signal, within bound: Duration) async -> Bool {
        signals.yield(signal)
        await wait(within: bound) { $0 == .ended }
        return phase == .ended
    }

    private func launched(_ process: pid_t) {
        processIdentifier = process
    }

    private func received(_ line: String) {
        guard !line.isEmpty else { return }
        onLine(line)
        lastLines.append(line)
        if lastLines.count > Self.keptLines { lastLines.removeFirst() }
        if phase == .starting, line.hasSuffix(Self.readyMessage) { moved(to: .ready) }
    }

    private func moved(to phase: Phase) {
        self.phase = phase
        if phase == .ended {
            processIdentifier = nil
            signals.finish()
        }
        let waiting = waiting
        self.waiting = [:]
        for continuation in waiting.values { continuation.resume() }
    }

    // MARK: Waiting

    private func wait(within bound: Duration, until isDone: (Phase) -> Bool) async {
        let deadline = ContinuousClock.now + bound
        while !isDone(phase), ContinuousClock.now < deadline {
            let waiter = nextWaiter
            nextWaiter += 1
            let timer = Task {
                try await Task.sleep(until: deadline, clock: .continuous)
                waiting.removeValue(forKey: waiter)?.resume()
            }
            await withCheckedContinuation { waiting[waiter] = $0 }
            timer.cancel()
        }
    }
}
