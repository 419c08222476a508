import EventLoop

/// A deadline that moves with every request and is seldom reached.
///
/// Its timer is not moved with it. A timer that fires too early is set again, which is cheaper than moving it each
/// time.
final class Deadline {
    private let loop: EventLoop
    private let onReached: () -> Void
    private var timer: TimerID?
    /// The time at which the timer fires, in the loop's milliseconds.
    private var timerTime = UInt64.max
    private var time = UInt64.max

    /// - Parameter onReached: Called on the loop each time a deadline passes. The owner must call ``cancel()``, to
    ///   avoid a retain cycle.
    init(loop: EventLoop, onReached: @escaping () -> Void) {
        self.loop = loop
        self.onReached = onReached
    }

    /// Sets the deadline to `milliseconds` from now.
    func set(milliseconds: UInt64) {
        time = loop.now + milliseconds
        guard timerTime > time else { return }
        loop.cancel(timer.take())
        arm()
    }

    /// Removes the deadline until the next one is set.
    func clear() {
        time = .max
    }

    /// Removes the deadline and its timer.
    func cancel() {
        clear()
        loop.cancel(timer.take())
    }

    private func arm() {
        timerTime = time
        timer = loop.schedule(after: .milliseconds(time - min(time, loop.now))) { [self] in fired() }
    }

    private func fired() {
        timer = nil
        timerTime = .max
        guard time != .max else { return }
        guard loop.now >= time else {
            arm()
            return
        }
        time = .max
        onReached()
    }
}
