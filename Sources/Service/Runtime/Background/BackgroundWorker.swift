import EventLoop
import Locking
import Logging
import ServiceLifecycle

/// Work that is repeated in the background until the server stops: a step, the time until the next one, and what to do
/// after a failure.
///
/// ```swift
/// BackgroundWorker(
///     "renew-devices",
///     on: loop,
///     every: .seconds(60),
///     pace: pace,
///     failure: "Token renewals not scheduled",
///     logger: logger
/// ) { _ in
///     if try await store.renew() > 0 { signal.send() }
///     return nil
/// }
/// ```
package final class BackgroundWorker: Service {
    /// A step of the work. It asks the worker whether to end early (``BackgroundWorker/isStopping``).
    ///
    /// - Returns: The time until the next step; `nil` for the worker's interval, zero to continue at once.
    package typealias Step = @Sendable (BackgroundWorker) async throws -> Duration?

    /// The time for a step after the stop.
    private static let lastStepTime = Duration.seconds(1)

    package let name: String
    /// The loop on which the steps run.
    package let loop: EventLoop
    private let interval: Duration
    private let firstWait: Duration
    private let retryInterval: Duration
    private let stepsAfterStop: Bool
    private let failure: (level: Logger.Level, message: Logger.Message)
    private let logger: Logger
    private let pace: PollPace?
    private let step: Step
    /// Wakes the worker before its interval ends.
    private let signal: Signal
    /// Ends the pause after a failure, which ``signal`` does not end.
    private let stopping: Signal
    private let hasStopped = Locked(false)

    /// - Parameters:
    ///   - name: The name in log lines.
    ///   - interval: The time between two steps without a signal.
    ///   - firstWait: The time before the first step; zero for none.
    ///   - signal: Wakes the worker when there is work to do.
    ///   - retryInterval: The time after a step that failed, whatever is signalled; `nil` for `interval`.
    ///   - stepsAfterStop: Whether a last step runs after the stop, for up to a second.
    ///   - pace: Limits how often the workers of a server look for work after `interval`, without a signal; `nil` for
    ///     a worker that makes hardly any transaction while it has no work.
    ///   - failure: The message of the log line for a step that failed.
    package init(
        _ name: String,
        on loop: EventLoop,
        every interval: Duration,
        firstAfter firstWait: Duration = .zero,
        signal: Signal? = nil,
        retryAfter retryInterval: Duration? = nil,
        stepsAfterStop: Bool = false,
        pace: PollPace?,
        failure: Logger.Message,
        level: Logger.Level = .debug,
        logger: Logger,
        step: @escaping Step
    ) {
        self.name = name
        self.loop = loop
        self.interval = interval
        self.firstWait = firstWait
        self.retryInterval = retryInterval ?? interval
        self.stepsAfterStop = stepsAfterStop
        self.pace = pace
        self.failure = (level, failure)
        self.logger = logger
        self.step = step
        self.signal = signal ?? Signal(loop: loop)
        stopping = Signal(loop: loop)
    }

    /// Whether the worker is to end: a step that takes long returns early then.
    package var isStopping: Bool { hasStopped.withLock { $0 } || Task.isCancelled }

    /// Repeats the step until the server shuts down, or ``stop()`` is called.
    package func run() async {
        await withTaskExecutorPreference(loop) {
            await withGracefulShutdownHandler {
                await self.repeatStep()
            } onGracefulShutdown: {
                self.stop()
            }
        }
    }

    /// Lets ``run()`` return after the current step.
    package func stop() {
        hasStopped.withLock { $0 = true }
        signal.send()
        stopping.send()
    }

    private func repeatStep() async {
        var slot: UInt64?
        var wait = firstWait > .zero ? paced(firstWait, &slot) : .zero
        while !isStopping {
            if wait > .zero { await signal.wait(atMost: wait) }
            if isStopping { break }
            do {
                wait = try await step(self) ?? paced(interval, &slot)
            } catch {
                log(error)
                if !isStopping { await stopping.wait(atMost: retryInterval) }
                wait = .zero
            }
        }
        guard stepsAfterStop else { return }
        do {
            _ = try await loop.run(within: Self.lastStepTime) { try await self.step(self) }
        } catch {
            log(error)
        }
    }

    private func paced(_ wait: Duration, _ slot: inout UInt64?) -> Duration {
        pace?.reserve(after: wait, in: &slot) ?? wait
    }

    private func log(_ error: any Error) {
        guard !(error is CancellationError) else { return }
        logger.log(
            level: failure.level,
            failure.message,
            metadata: ["worker": "\(name)", "error": "\(String(reflecting: error))"]
        )
    }
}
