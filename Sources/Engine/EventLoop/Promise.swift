/// A result that one task waits for.
///
/// If the task is cancelled before the result comes, the operation still runs to its end and its result is dropped. A
/// statement that was sent to PostgreSQL thus keeps its place in the pipeline.
package final class Promise<Value: Sendable>: @unchecked Sendable {
    // Accessed on its loop only: every method checks.

    // `State` ensures that the continuation is resumed once: only `waiting` holds it.

    private enum State {
        /// No task waits yet. Can transition to `waiting`, `abandoned`.
        case new
        /// A task is suspended. Can transition to `abandoned`, `answered`.
        case waiting(PromiseContinuation<Value>)
        /// The task was cancelled. It has received `CancellationError`, or receives it as soon as it waits.
        case abandoned
        /// The promise is complete.
        case answered
    }

    private let loop: EventLoop
    private var state = State.new
    /// The timer of ``after(_:_:)``.
    private var timer: TimerID?

    init(loop: EventLoop) {
        self.loop = loop
    }

    /// Whether no task waits for the result any more.
    package var isAbandoned: Bool {
        loop.preconditionOnLoop()
        switch state {
        case .abandoned, .answered: return true
        case .new, .waiting: return false
        }
    }

    /// Suspends the task, runs `begin` on the loop, and returns the result with which the promise is completed.
    ///
    /// - Throws: The error with which the promise is completed, or `CancellationError` as soon as the task is
    ///   cancelled. `begin` is not run if the task was cancelled before.
    package static func value(on loop: EventLoop, begin: @escaping @Sendable (Promise) -> Void) async throws -> Value {
        let promise = Promise(loop: loop)
        return try await withTaskCancellationHandler {
            try await withPromiseContinuation { continuation in
                loop.execute {
                    if promise.wait(continuation) { begin(promise) }
                }
            }
        } onCancel: {
            loop.execute { promise.abandon() }
        }
    }

    /// Runs `begin` on the loop and returns the result with which the promise is completed, even if the task is
    /// cancelled meanwhile.
    package static func uninterruptedValue(
        on loop: EventLoop,
        begin: @escaping @Sendable (Promise) -> Void
    ) async throws -> Value {
        let promise = Promise(loop: loop)
        return try await withPromiseContinuation { continuation in
            loop.execute {
                if promise.wait(continuation) { begin(promise) }
            }
        }
    }

    /// Runs `begin` on the loop and returns the result with which the promise is completed within `limit`, even if the
    /// task is cancelled meanwhile.
    ///
    /// - Throws: The error with which the promise is completed, or `timeout` at the limit.
    package static func uninterruptedValue(
        on loop: EventLoop,
        within limit: Duration,
        timeout: any Error,
        begin: @escaping @Sendable (Promise) -> Void
    ) async throws -> Value {
        try await uninterruptedValue(on: loop) { promise in
            promise.after(limit) { promise.complete(.failure(timeout)) }
            begin(promise)
        }
    }

    /// Calls `body`, which completes the promise, after `delay` unless a task no longer waits for the result by then.
    func after(_ delay: Duration, _ body: @escaping () -> Void) {
        timer = loop.schedule(after: delay, body)
    }

    /// Completes the promise. Only the first result counts.
    package func complete(_ result: Result<Value, any Error>) {
        loop.preconditionOnLoop()
        guard case .waiting(let continuation) = state else { return }
        state = .answered
        if let timer { loop.cancel(timer) }
        continuation.resume(with: result)
    }

    private func wait(_ continuation: PromiseContinuation<Value>) -> Bool {
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
            if let timer { loop.cancel(timer) }
            continuation.resume(throwing: CancellationError())
        case .abandoned, .answered:
            break
        }
    }
}

// The continuation is unsafe because the layout of a checked one is known only at run time, which cost every statement
// a dozen lookups in Swift's runtime. ThreadSanitizer recognizes only the handover of a checked one.
#if THREAD_SANITIZER
private typealias PromiseContinuation<Value> = CheckedContinuation<Value, any Error>

@inline(__always)
private func withPromiseContinuation<Value>(
    _ body: (PromiseContinuation<Value>) -> Void
) async throws -> Value {
    try await withCheckedThrowingContinuation(body)
}
#else
private typealias PromiseContinuation<Value> = UnsafeContinuation<Value, any Error>

@inline(__always)
private func withPromiseContinuation<Value>(
    _ body: (PromiseContinuation<Value>) -> Void
) async throws -> Value {
    try await withUnsafeThrowingContinuation(body)
}
#endif
