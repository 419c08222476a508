import Dispatch

/// Something that happens once, and that a test's task waits for.
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

/// Something that happens once, and that a server's threads wait for.
final class Gate: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)

    func open() {
        semaphore.signal()
    }

    /// Lets the next one through as well.
    func wait() {
        semaphore.wait()
        semaphore.signal()
    }
}
