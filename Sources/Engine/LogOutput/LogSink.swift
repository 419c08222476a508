import Dispatch
import Glibc
import Locking
package import Logging
import Synchronization

/// A bounded buffer of log lines that a background queue writes out, so that logging never waits for a disk or a
/// terminal.
///
/// When the buffer is full, lines are dropped and counted. The count is written as soon as there is room.
package final class LogSink: Sendable {
    private struct State {
        var pending: [UInt8] = []
        /// The lines that were dropped since this was last written.
        var dropped = 0
        var droppedInTotal = 0
        var isWriting = false
    }

    /// The size of the buffer in bytes, enough for a burst of some thousand lines.
    private static let capacity = 1 << 20

    private let descriptor: Int32
    private let queue = DispatchQueue(label: "log")
    private let state = Locked(State())
    private let levels = Logger.Level.allCases
    /// The index of ``level`` in ``levels``.
    private let levelIndex = Atomic(0)

    /// - Parameter descriptor: The file descriptor for the lines, by default standard error. The caller keeps
    ///   ownership.
    package init(descriptor: Int32 = 2) {
        self.descriptor = descriptor
        level = .info
    }

    /// The lowest level of the loggers that write here.
    package var level: Logger.Level {
        get { levels[levelIndex.load(ordering: .relaxed)] }
        set { levelIndex.store(levels.firstIndex(of: newValue) ?? 0, ordering: .relaxed) }
    }

    /// Appends one line, which ends in a line feed.
    package func write(_ line: [UInt8]) {
        let mustStart = state.withLock { state in
            guard state.pending.count + line.count <= Self.capacity else {
                state.dropped += 1
                state.droppedInTotal += 1
                return false
            }
            state.pending.append(contentsOf: line)
            defer { state.isWriting = true }
            return !state.isWriting
        }
        if mustStart { queue.async { self.writePending() } }
    }

    /// The number of lines that were dropped so far.
    package var droppedLines: Int { state.withLock { $0.droppedInTotal } }

    /// Blocks until all lines are written. For the end of the process.
    package func flush() {
        queue.sync { self.writePending() }
    }

    private func writePending() {
        while true {
            let (lines, dropped) = state.withLock { state in
                var taken: [UInt8] = []
                swap(&taken, &state.pending)
                defer { state.dropped = 0 }
                state.isWriting = !taken.isEmpty || state.dropped > 0
                return (taken, state.dropped)
            }
            guard !lines.isEmpty || dropped > 0 else { return }
            writeAll(lines)
            if dropped > 0 { writeAll(Array("warning  \(dropped) log lines dropped: the log buffer was full\n".utf8)) }
        }
    }

    private func writeAll(_ bytes: [UInt8]) {
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.write(descriptor, $0.baseAddress?.advanced(by: written), $0.count - written)
            }
            // The output is gone, for example a closed terminal. Lines are lost, which must not affect the server.
            guard count > 0 || errno == EINTR else { return }
            written += max(0, count)
        }
    }
}
