internal import Dispatch
internal import Glibc
internal import Locking

/// Where log lines go: a bounded buffer that one writer empties, so that nobody who logs ever waits for a disk or a terminal.
///
/// When the buffer is full, lines are dropped and counted; the count is written as soon as there is room.
package final class LogSink: Sendable {
    private struct State {
        var pending: [UInt8] = []
        var dropped = 0
        var isWriting = false
    }

    /// Enough for a burst of some thousand lines.
    private static let capacity = 1 << 20

    private let descriptor: Int32
    private let queue = DispatchQueue(label: "log")
    private let state = Locked(State())

    /// - Parameter descriptor: Where to write; stays the caller's. Standard error is where it is looked for.
    package init(descriptor: Int32 = 2) {
        self.descriptor = descriptor
    }

    /// Appends one line, which ends in a line feed.
    package func write(_ line: [UInt8]) {
        let mustStart = state.withLock { state in
            guard state.pending.count + line.count <= Self.capacity else {
                state.dropped += 1
                return false
            }
            state.pending.append(contentsOf: line)
            defer { state.isWriting = true }
            return !state.isWriting
        }
        if mustStart { queue.async { self.writePending() } }
    }

    /// Waits until everything has been written: for the end of the process.
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
            if dropped > 0 { writeAll(Array("warning  \(dropped) log lines were dropped: they came too fast\n".utf8)) }
        }
    }

    private func writeAll(_ bytes: [UInt8]) {
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.write(descriptor, $0.baseAddress?.advanced(by: written), $0.count - written)
            }
            // A terminal that is gone takes no more lines; the server has better things to do than to mind.
            guard count > 0 || errno == EINTR else { return }
            written += max(0, count)
        }
    }
}
