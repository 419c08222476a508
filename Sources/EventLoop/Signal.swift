/// Lets a background task wait until there is something to do, or until it is time to look anyway.
///
/// A signal that comes while nobody waits is kept for the next wait, so that none is lost between looking and waiting.
package final class Signal: @unchecked Sendable {
    // Touched on its loop only: every method enters through `execute`.
    private let loop: EventLoop
    private var isSignalled = false
    private var waiting: CheckedContinuation<Void, Never>?
    private var timer: TimerID?

    package init(loop: EventLoop) {
        self.loop = loop
    }

    /// Wakes who waits. Callable from any thread, as often as one likes.
    package func send() {
        loop.execute {
            self.isSignalled = true
            self.resume()
        }
    }

    /// Wakes who waits, `delay` from now.
    package func send(after delay: Duration) {
        loop.execute {
            self.loop.schedule(after: delay) { self.send() }
        }
    }

    /// Waits for a signal, at most for `limit`. One task waits at a time. Also returns when that task is cancelled.
    package func wait(atMost limit: Duration) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                loop.execute { self.begin(continuation, limit) }
            }
        } onCancel: {
            self.send()
        }
    }

    private func begin(_ continuation: CheckedContinuation<Void, Never>, _ limit: Duration) {
        precondition(waiting == nil, "one task waits at a time")
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
