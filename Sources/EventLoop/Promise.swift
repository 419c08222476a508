/// One answer that one task waits for.
///
/// The task may go away before the answer comes, when it is cancelled: the answer is then dropped, and whoever was to
/// answer does so all the same. So a statement that is on its way to PostgreSQL keeps its place.
package final class Promise<Value: Sendable>: @unchecked Sendable {
    // Touched on its loop only: every method checks.

    // The continuation is an unsafe one, since the checked one's layout is known only at run time, which cost every statement a dozen
    // lookups in Swift's runtime. That it is resumed once is for `State` to see to: only `waiting` holds it.

    private enum State {
        /// Nobody waits yet. Can transition to `waiting`, `abandoned`, `answered`.
        case new
        /// A task is suspended. Can transition to `abandoned`, `answered`.
        case waiting(UnsafeContinuation<Value, any Error>)
        /// The task was cancelled and has been told so, or will be as soon as it waits.
        case abandoned
        /// The answer has been given.
        case answered
    }

    private let loop: EventLoop
    private var state = State.new
    private var limit: TimerID?

    init(loop: EventLoop) {
        self.loop = loop
    }

    /// Nobody wants the answer any more.
    package var isAbandoned: Bool {
        loop.preconditionOnLoop()
        switch state {
        case .abandoned, .answered: return true
        case .new, .waiting: return false
        }
    }

    /// Suspends the task, runs `begin` on the loop, and returns what the promise is answered with.
    ///
    /// - Throws: what it is failed with; `CancellationError` as soon as the task is cancelled. `begin` is not run for a
    ///   task that was cancelled before.
    package static func value(on loop: EventLoop, begin: @escaping @Sendable (Promise) -> Void) async throws -> Value {
        let promise = Promise(loop: loop)
        return try await withTaskCancellationHandler {
            try await withUnsafeThrowingContinuation { continuation in
                loop.execute {
                    if promise.wait(continuation) { begin(promise) }
                }
            }
        } onCancel: {
            loop.execute { promise.abandon() }
        }
    }

    /// The same for a task that may not be interrupted: its cancellation makes no difference.
    package static func uninterruptedValue(
        on loop: EventLoop,
        begin: @escaping @Sendable (Promise) -> Void
    ) async throws -> Value {
        let promise = Promise(loop: loop)
        return try await withUnsafeThrowingContinuation { continuation in
            loop.execute {
                if promise.wait(continuation) { begin(promise) }
            }
        }
    }

    /// The same for `limit` at most.
    ///
    /// - Throws: what the promise is failed with, or `timeout`.
    package static func uninterruptedValue(
        on loop: EventLoop,
        within limit: Duration,
        timeout: any Error,
        begin: @escaping @Sendable (Promise) -> Void
    ) async throws -> Value {
        try await uninterruptedValue(on: loop) { promise in
            promise.limit = loop.schedule(after: limit) { promise.complete(.failure(timeout)) }
            begin(promise)
        }
    }

    /// Answers. The first answer counts.
    package func complete(_ result: Result<Value, any Error>) {
        loop.preconditionOnLoop()
        guard case .waiting(let continuation) = state else { return }
        state = .answered
        if let limit { loop.cancel(limit) }
        continuation.resume(with: result)
    }

    private func wait(_ continuation: UnsafeContinuation<Value, any Error>) -> Bool {
        loop.preconditionOnLoop()
        guard case .new = state else {
            continuation.resume(throwing: CancellationError())
            return false
        }
        state = .waiting(continuation)
        return true
    }

    private func abandon() {
        loop.preconditionOnLoop()
        switch state {
        case .new:
            state = .abandoned
        case .waiting(let continuation):
            state = .abandoned
            continuation.resume(throwing: CancellationError())
        case .abandoned, .answered:
            break
        }
    }
}
