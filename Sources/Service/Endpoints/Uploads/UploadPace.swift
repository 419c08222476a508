import EventLoop

/// The slowest rate at which files may arrive. An upload takes one of a few places while it arrives, so a sender may not
/// keep it for hours at the rate that is allowed for other bodies (`http.min_bytes_per_second`).
package struct UploadPace: Sendable {
    /// The time in which any number of bytes may arrive.
    let grace: Duration
    /// The bytes of each further second.
    let bytesPerSecond: Int

    package init(grace: Duration = .seconds(30), bytesPerSecond: Int = 100_000) {
        self.grace = grace
        self.bytesPerSecond = bytesPerSecond
    }

    /// Returns whether `bytes` are too few for an upload that began at `start`.
    func isTooSlow(_ bytes: Int, since start: MonotonicTime, now: MonotonicTime = .now) -> Bool {
        start.seconds(to: now) > grace.inSeconds + Double(bytes) / Double(bytesPerSecond)
    }
}
