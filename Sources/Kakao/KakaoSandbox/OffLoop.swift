import Dispatch
import EventLoop

/// Runs a long computation on the blocking queue, so that no event loop waits.
func offLoop<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
    await withCheckedContinuation { continuation in
        EventLoop.blocking.async { continuation.resume(returning: body()) }
    }
}
