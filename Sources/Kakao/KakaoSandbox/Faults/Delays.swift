import EventLoop
import HTTPServer
import Locking

/// The responses that a fault delays. A shutdown cancels them instead of waiting.
final class Delays: Sendable {
    private struct State {
        var waits: [Int: Task<Void, any Error>] = [:]
        /// The waits that ``Delays/skip()`` has ended, whose responses are sent at once.
        var skipped: Set<Int> = []
        var lastID = 0
        var isOver = false
    }

    private let state = Locked(State())

    /// Waits for `delay` on an event loop.
    ///
    /// - Throws: `ConnectionAbort` when the sandbox shuts down, or when the task is cancelled because its connection is
    ///   gone.
    func wait(_ delay: Duration, on loop: EventLoop) async throws {
        let task = Task(executorPreference: loop) { try await loop.sleep(for: delay) }
        let id = state.withLock { state in
            state.lastID += 1
            state.waits[state.lastID] = task
            if state.isOver { task.cancel() }
            return state.lastID
        }
        defer {
            state.withLock { state in
                state.waits[id] = nil
                state.skipped.remove(id)
            }
        }
        do {
            try await withTaskCancellationHandler {
                try await task.value
            } onCancel: {
                task.cancel()
            }
        } catch {
            guard state.withLock({ $0.skipped.contains(id) }) else { throw ConnectionAbort() }
        }
    }

    /// Ends all current waits, so that their responses are sent at once.
    func skip() {
        let waits = state.withLock { state in
            state.skipped.formUnion(state.waits.keys)
            return state.waits
        }
        for task in waits.values { task.cancel() }
    }

    /// Cancels all current and future waits.
    func end() {
        let waits = state.withLock { state in
            state.isOver = true
            return state.waits
        }
        for task in waits.values { task.cancel() }
    }
}
