import EventLoop
import Testing

@testable import Endpoints

/// The slowest rate at which files may arrive.
@Suite struct UploadPaceTests {
    @Test(
        "After the grace, each second needs its bytes",
        arguments: [
            (0, 29.9, false), (0, 30.1, true), (99_000, 31, true), (101_000, 31, false), (5_000_000, 79, false),
            (5_000_000, 81, true),
        ]
    )
    func pace(bytes: Int, seconds: Double, isTooSlow: Bool) {
        let start = MonotonicTime.now
        let pace = UploadPace(grace: .seconds(30), bytesPerSecond: 100_000)
        #expect(pace.isTooSlow(bytes, since: start, now: start + .seconds(seconds)) == isTooSlow)
    }
}
