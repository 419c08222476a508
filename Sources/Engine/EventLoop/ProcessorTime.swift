import Glibc

/// The processor time that something has used. Unlike the time on a clock, it does not include that of other threads and
/// processes, nor that for which the process was stopped.
package struct ProcessorTime: Sendable {
    private let time: timespec

    /// The processor time that the calling thread has used.
    package static var ofThread: ProcessorTime {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return ProcessorTime(time: time)
    }

    package static func - (end: ProcessorTime, start: ProcessorTime) -> Duration {
        .seconds(end.time.tv_sec - start.time.tv_sec) + .nanoseconds(end.time.tv_nsec - start.time.tv_nsec)
    }
}
