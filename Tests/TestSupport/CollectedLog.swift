import Locking
package import Logging

/// An in-memory log of all levels.
package final class CollectedLog: Sendable {
    package struct Line: Sendable {
        package let level: Logger.Level
        package let message: String
        package let metadata: [String: String]

        /// The message and the metadata, as an operator sees them.
        package var text: String { "\(message) \(metadata.sorted { $0.key < $1.key })" }
    }

    private struct State {
        var lines: [Line] = []
        var waiters: [(matches: @Sendable (Line) -> Bool, continuation: CheckedContinuation<Line, Never>)] = []
    }

    private let state = Locked(State())

    package init() {}

    package var lines: [Line] { state.withLock { $0.lines } }

    /// The messages, without their metadata.
    package var messages: [String] { lines.map(\.message) }

    /// The messages of one level.
    package func messages(_ level: Logger.Level) -> [String] {
        lines.filter { $0.level == level }.map(\.message)
    }

    /// A logger that writes to this log.
    package var logger: Logger {
        Logger(label: "test") { _ in Handler(log: self) }
    }

    /// Returns the first line that `matches`, waiting until it is written.
    package func line(where matches: @escaping @Sendable (Line) -> Bool) async -> Line {
        await withCheckedContinuation { continuation in
            let found = state.withLock { state in
                let found = state.lines.first(where: matches)
                if found == nil { state.waiters.append((matches, continuation)) }
                return found
            }
            if let found { continuation.resume(returning: found) }
        }
    }

    private func write(_ line: Line) {
        let waiters = state.withLock { state in
            state.lines.append(line)
            let matching = state.waiters.filter { $0.matches(line) }
            state.waiters.removeAll { $0.matches(line) }
            return matching
        }
        for waiter in waiters { waiter.continuation.resume(returning: line) }
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
            log.write(Line(level: event.level, message: "\(event.message)", metadata: metadata))
        }
    }
}

/// A logger of critical messages only, so that failures that a test provokes are not shown among the tests' own
/// failures.
package let quietLogger: Logger = {
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    return logger
}()
