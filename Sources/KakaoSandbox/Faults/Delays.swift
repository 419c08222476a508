internal import EventLoop
internal import HTTPServer
internal import Locking

/// The answers that wait because of a fault, so that a shutdown does not wait for them.
final class Delays: Sendable {
    private struct State {
        var waits: [Int: Task<Void, any Error>] = [:]
        var lastID = 0
        var isOver = false
    }

    private let state = Locked(State())

    /// Waits on a loop.
    ///
    /// - Throws: `ConnectionAbort` when the sandbox ends.
    func wait(_ delay: Duration, on loop: EventLoop) async throws {
        let task = Task(executorPreference: loop) { try await loop.sleep(for: delay) }
        let id = state.withLock { state in
            state.lastID += 1
            state.waits[state.lastID] = task
            if state.isOver { task.cancel() }
            return state.lastID
        }
        defer { state.withLock { _ = $0.waits.removeValue(forKey: id) } }
        do { try await task.value } catch { throw ConnectionAbort() }
    }

    /// Ends every wait, and those to come.
    func end() {
        let waits = state.withLock { state in
            state.isOver = true
            return state.waits
        }
        for task in waits.values { task.cancel() }
    }
}
