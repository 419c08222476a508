/// A wake-up signal for a background task. The task waits until there is work to do, or at most until a time limit.
///
/// A signal that arrives while no task waits is kept for the next wait, so that none is lost between checking for work
/// and waiting.
package final class Signal: @unchecked Sendable {
    // Accessed on its loop only: every method enters through `execute` or a promise.
    private let loop: EventLoop
    private var isSignalled = false
    /// The wait of a task, which may have ended.
    private var waiting: Promise<Void>?

    package init(loop: EventLoop) {
        self.loop = loop
    }

    /// Wakes the waiting task. Callable from any thread, any number of times.
    package func send() {
        loop.execute {
            self.isSignalled = true
            self.resume()
        }
    }

    /// Wakes the waiting task after `delay`.
    package func send(after delay: Duration) {
        loop.execute {
            self.loop.schedule(after: delay) { self.send() }
        }
    }

    /// Waits for a signal, for up to `limit`. Also returns when the waiting task is cancelled. Only one task may wait
    /// at a time.
    package func wait(atMost limit: Duration) async {
        // The promise fails only if the task is cancelled.
        try? await Promise<Void>.value(on: loop) { promise in
            precondition(self.waiting?.isAbandoned != false, "Only one task may wait for a signal at a time.")
            self.waiting = promise
            promise.after(limit) { promise.complete(.success(())) }
            if self.isSignalled { self.resume() }
        }
    }

    private func resume() {
        guard let waiting, !waiting.isAbandoned else { return }
        isSignalled = false
        waiting.complete(.success(()))
    }
}
