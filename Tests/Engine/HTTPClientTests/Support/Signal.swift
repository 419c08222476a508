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

/// Runs `body`, which may block, on a thread of its own.
func blocking(_ body: @escaping @Sendable () -> Void) async {
    await withCheckedContinuation { continuation in
        DispatchQueue(label: "blocking").async {
            body()
            continuation.resume()
        }
    }
}
