import Dispatch

/// A one-time event that tasks wait for.
final class Signal: Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() {
        (stream, continuation) = AsyncStream.makeStream(of: Void.self)
    }

    func fire() {
        continuation.finish()
    }

    func wait() async {
        for await _ in stream {}
    }
}

/// A one-time event that a server's threads wait for.
final class Gate: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)

    func open() {
        semaphore.signal()
    }

    /// Waits for the event. Each thread that passes releases the next one.
    func wait() {
        semaphore.wait()
        semaphore.signal()
    }
}
