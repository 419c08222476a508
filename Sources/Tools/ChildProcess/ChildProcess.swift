package import Subprocess
import SystemPackage

/// A child process that prints a line when it is ready, from its start to its end.
package actor ChildProcess {
    package enum Phase: Equatable, Sendable {
        /// The process is not ready yet. Can transition to `ready`, `ended`.
        case starting
        /// The process has printed the line that says so. Can transition to `ended`.
        case ready(line: String)
        case ended
    }

    /// The number of lines that are retained to explain a failure.
    private static let maximumLastLines = 12

    private let signals: AsyncStream<Signal>.Continuation
    private let incomingSignals: AsyncStream<Signal>
    private let isReady: @Sendable (String) -> Bool
    private let onLine: @Sendable (String) -> Void
    private var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    private var nextWaiter = 0

    package private(set) var phase = Phase.starting
    package private(set) var processIdentifier: Int32?
    package private(set) var lastLines: [String] = []

    /// - Parameters:
    ///   - isReady: Returns whether a line says that the process is ready.
    ///   - onLine: Called with each line that the process prints, except for empty ones.
    package init(isReady: @escaping @Sendable (String) -> Bool, onLine: @escaping @Sendable (String) -> Void) {
        self.isReady = isReady
        self.onLine = onLine
        (incomingSignals, signals) = AsyncStream.makeStream(of: Signal.self)
    }

    /// Starts the process in the root directory, since its user may have no access to the current one.
    ///
    /// - Parameter onLaunch: Called with the process id as soon as the process exists.
    package nonisolated func launch(
        _ executable: Executable,
        _ arguments: Arguments,
        environment: Environment,
        onLaunch: @escaping @Sendable (Int32) -> Void = { _ in }
    ) {
        // Detached, so that cancellation of the caller does not end the process.
        Task.detached { [incomingSignals] in
            do {
                _ = try await Subprocess.run(
                    executable,
                    arguments: arguments,
                    environment: environment,
                    workingDirectory: FilePath("/"),
                    platformOptions: .ownSession,
                    input: .none,
                    output: .sequence,
                    error: .combinedWithOutput
                ) { execution in
                    await self.launched(execution.processIdentifier.value)
                    onLaunch(execution.processIdentifier.value)
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        group.addTask {
                            for await signal in incomingSignals { try? execution.send(signal: signal) }
                        }
                        // The output ends when the process and all its child processes have closed the pipe.
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

    /// Waits until the process is ready, has ended, or the time is up. Returns its phase.
    package func waitUntilReady(within bound: Duration) async -> Phase {
        await wait(within: bound) { $0 != .starting }
        return phase
    }

    /// Sends a signal to the process and waits for its end. Returns whether it ended in time.
    @discardableResult
    package func end(with signal: Signal, within bound: Duration) async -> Bool {
        signals.yield(signal)
        await wait(within: bound) { $0 == .ended }
        return phase == .ended
    }

    private func launched(_ process: Int32) {
        processIdentifier = process
    }

    private func received(_ line: String) {
        guard !line.isEmpty else { return }
        onLine(line)
        lastLines.append(line)
        if lastLines.count > Self.maximumLastLines { lastLines.removeFirst() }
        if phase == .starting, isReady(line) { moved(to: .ready(line: line)) }
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

extension PlatformOptions {
    /// A session without this process's terminal: Ctrl-C reaches only this process, which then stops its child processes
    /// cleanly.
    package static var ownSession: PlatformOptions {
        var options = PlatformOptions()
        options.createSession = true
        return options
    }
}
