import Runtime
import Testing

@Suite struct RetryDelayTests {
    private static let delay = RetryDelay(first: .seconds(1), longest: .seconds(300))

    @Test(
        "The delay doubles with each failure, up to the longest one",
        arguments: [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (1_000_000, 300)]
    )
    func doubling(failures: Int, seconds: Int) {
        #expect(Self.delay.after(failures, jitter: 1) == .seconds(seconds))
    }

    @Test("A jitter of 20 % spreads the delays, also the shortest that the caller allows")
    func jitter() {
        let delays = (0..<1000).map { _ in Self.delay.after(1, atLeast: .seconds(60)) }
        #expect(delays.allSatisfy { (.seconds(48)...(.seconds(72))).contains($0) })
        #expect(Set(delays).count > 500)
    }
}
