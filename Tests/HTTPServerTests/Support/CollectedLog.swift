import Locking
import Logging

/// A log kept in memory, and a way to wait for a line of it.
final class CollectedLog: Sendable {
    struct Line: Sendable {
        let level: Logger.Level
        let message: String
        let metadata: [String: String]

        /// Everything that an operator sees of it.
        var text: String { "\(message) \(metadata.sorted { $0.key < $1.key })" }
    }

    private struct State {
        var lines: [Line] = []
        var waiters: [(matches: @Sendable (Line) -> Bool, continuation: CheckedContinuation<Line, Never>)] = []
    }

    private let state = Locked(State())

    var lines: [Line] { state.withLock { $0.lines } }

    /// A logger that writes here, at every level.
    var logger: Logger {
        Logger(label: "test") { _ in Handler(log: self) }
    }

    /// The first line that `matches`, which may not have been written yet.
    func line(where matches: @escaping @Sendable (Line) -> Bool) async -> Line {
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
