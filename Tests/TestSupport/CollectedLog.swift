internal import Locking
package import Logging
internal import Testing

/// A log kept in memory, at every level.
package final class CollectedLog: Sendable {
    package struct Line: Sendable {
        package let level: Logger.Level
        package let message: String
        package let metadata: [String: String]

        /// Everything that an operator sees of it.
        package var text: String { "\(message) \(metadata.sorted { $0.key < $1.key })" }
    }

    private let state = Locked<[Line]>([])

    package init() {}

    package var lines: [Line] { state.withLock { $0 } }

    /// The messages, without their metadata.
    package var messages: [String] { lines.map(\.message) }

    /// The messages of one level.
    package func messages(_ level: Logger.Level) -> [String] {
        lines.filter { $0.level == level }.map(\.message)
    }

    /// A logger that writes here.
    package var logger: Logger {
        Logger(label: "test") { _ in Handler(log: self) }
    }

    /// The first line that `matches`, which may not have been written yet.
    ///
    /// - Throws: ``NeverHappened`` when none is written in time.
    package func line(where matches: (Line) -> Bool) async throws -> Line {
        try await eventually("a line of the log") { lines.contains(where: matches) }
        guard let line = lines.first(where: matches) else { throw NeverHappened() }
        return line
    }

    private struct Handler: LogHandler {
        let log: CollectedLog
        var metadata: Logger.Metadata = [:]
        var metadataProvider: Logger.MetadataProvider?
        var logLevel = Logger.Level.trace

        init(log: CollectedLog) {
            self.log = log
        }

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let metadata = (event.metadata ?? [:]).mapValues { "\($0)" }
            let line = Line(level: event.level, message: "\(event.message)", metadata: metadata)
            log.state.withLock { $0.append(line) }
        }
    }
}

/// Writes only what is critical: the failures that a test provokes are not shown among its own.
package let quietLogger: Logger = {
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    return logger
}()
