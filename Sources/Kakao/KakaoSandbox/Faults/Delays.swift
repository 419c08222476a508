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
        var skips = 0
        var isOver = false
    }

    private let state = Locked(State())

    /// The number of calls of ``skip()`` so far.
    var skips: Int { state.withLock { $0.skips } }

    /// Waits for `delay` on an event loop, unless ``skip()`` was called since a request was seen.
    ///
    /// - Parameter skips: The number of ``skips`` before the delay of the request was determined.
    /// - Throws: `ConnectionAbort` when the sandbox shuts down, or when the task is cancelled because its connection is
    ///   gone.
    func wait(_ delay: Duration, since skips: Int, on loop: EventLoop) async throws {
        let task = Task(executorPreference: loop) { try await loop.sleep(for: delay) }
        let id = state.withLock { state in
            state.lastID += 1
            state.waits[state.lastID] = task
            let isSkipped = state.skips != skips
            if isSkipped { state.skipped.insert(state.lastID) }
            if isSkipped || state.isOver { task.cancel() }
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

    /// Ends all current waits, and those of requests whose delay is determined already, so that their responses are sent at
    /// once.
    func skip() {
        let waits = state.withLock { state in
            state.skips += 1
            state.skipped.formUnion(state.waits.keys)
            return state.waits
        }
        for task in waits.values { task.cancel() }
    }

    /// Cancels all current and future waits.
    func cancelAll() {
        let waits = state.withLock { state in
            state.isOver = true
            return state.waits
        }
        for task in waits.values { task.cancel() }
    }
}
