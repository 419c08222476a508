import EventLoop

/// The delay between two attempts. It doubles with each failure. A jitter of 20 % spreads the retries of attempts that
/// failed together.
package struct RetryDelay: Sendable {
    private let first: Duration
    private let longest: Duration

    /// - Parameters:
    ///   - first: The delay after the first failure.
    ///   - longest: The longest delay.
    package init(first: Duration, longest: Duration) {
        self.first = first
        self.longest = longest
    }

    /// Returns a random factor from 0.8 to 1.2.
    package static func jitter() -> Double { .random(in: 0.8...1.2) }

    /// Returns the delay before the next attempt.
    ///
    /// - Parameters:
    ///   - failures: The number of failed attempts, at least 1.
    ///   - minimum: The shortest delay, without the jitter.
    ///   - jitter: From 0.8 to 1.2.
    package func after(_ failures: Int, atLeast minimum: Duration = .zero, jitter: Double = jitter()) -> Duration {
        max(min(first * (1 << max(0, min(failures - 1, 20))), longest), minimum) * jitter
    }

    /// Makes up to `attempts` attempts, with this delay after each that failed.
    ///
    /// - Parameters:
    ///   - isTransient: Whether another attempt may succeed after an error. Called once for each, so that it may log it.
    /// - Throws: The error of the last attempt; `CancellationError`.
    package func retrying<Value, Failure: Error>(
        atMost attempts: Int,
        on loop: EventLoop,
        attempt: () async throws -> Value,
        while isTransient: (Failure) -> Bool
    ) async throws -> Value {
        for number in 1..<max(attempts, 1) {
            do {
                return try await attempt()
            } catch let error as Failure where isTransient(error) {
                try await loop.sleep(for: after(number))
            }
        }
        return try await attempt()
    }
}
