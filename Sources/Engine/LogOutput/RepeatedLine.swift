import Locking
package import Logging

/// A log line about something that strangers can cause as often as they like. At most one such line is written in an
/// interval; the next one has the number of those that were left out, as `repeated`.
package final class RepeatedLine: Sendable {
    private struct State {
        /// When the next line may be written.
        var next: ContinuousClock.Instant?
        var leftOut = 0
    }

    private let logger: Logger
    private let level: Logger.Level
    private let interval: Duration
    private let state = Locked(State())

    /// - Parameter interval: The minimum time between two lines.
    package init(_ logger: Logger, _ level: Logger.Level = .warning, every interval: Duration = .seconds(1)) {
        self.logger = logger
        self.level = level
        self.interval = interval
    }

    /// Writes the line, or counts it.
    package func write(
        _ message: @autoclosure () -> Logger.Message,
        _ metadata: @autoclosure () -> Logger.Metadata = [:],
        at now: ContinuousClock.Instant = .now
    ) {
        let leftOut: Int? = state.withLock { state in
            if let next = state.next, next > now {
                state.leftOut += 1
                return nil
            }
            defer { state = State(next: now + interval) }
            return state.leftOut
        }
        guard let leftOut else { return }
        var metadata = metadata()
        if leftOut > 0 { metadata["repeated"] = "\(leftOut)" }
        logger.log(level: level, message(), metadata: metadata)
    }
}
