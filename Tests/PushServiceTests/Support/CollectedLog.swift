import Locking
import Logging

/// A log kept in memory, at every level.
final class CollectedLog: Sendable {
    struct Line: Sendable {
        let level: Logger.Level
        let message: String
        let metadata: [String: String]

        /// Everything that an operator sees of it.
        var text: String { "\(message) \(metadata.sorted { $0.key < $1.key })" }
    }

    private let state = Locked<[Line]>([])

    var lines: [Line] { state.withLock { $0 } }

    /// The messages, without their metadata.
    var messages: [String] { lines.map(\.message) }

    /// A logger that writes here.
    var logger: Logger {
        Logger(label: "test") { _ in Handler(log: self) }
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

/// Says what goes wrong with the tests themselves, and nothing of what is meant to.
let quietLogger: Logger = {
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    return logger
}()
