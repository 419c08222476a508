/// A wake-up signal for a background task. The task waits until there is work to do, or at most until a time limit.
///
/// A signal that arrives while no task waits is kept for the next wait, so that none is lost between checking for work
/// and waiting.
package final class Signal: @unchecked Sendable {
    // Accessed on its loop only: every method enters through `execute`.
    private let loop: EventLoop
    private var isSignalled = false
    private var waiting: CheckedContinuation<Void, Never>?
    private var timer: TimerID?

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
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                loop.execute { self.suspend(continuation, limit) }
            }
        } onCancel: {
            self.send()
        }
    }

    private func suspend(_ continuation: CheckedContinuation<Void, Never>, _ limit: Duration) {
        precondition(waiting == nil, "Only one task may wait for a signal at a time.")
        waiting = continuation
        if isSignalled {
            resume()
        } else {
            timer = loop.schedule(after: limit) { self.resume() }
        }
    }

    private func resume() {
        guard let continuation = waiting else { return }
        waiting = nil
        isSignalled = false
        if let timer { loop.cancel(timer) }
        timer = nil
        continuation.resume()
    }
}
