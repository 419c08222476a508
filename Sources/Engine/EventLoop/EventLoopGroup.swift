import CLinux
import Glibc

/// The event loops of a process, one for each processor that it may use.
package final class EventLoopGroup: Sendable {
    package let loops: [EventLoop]

    /// The number of processors that this process may use: those that its affinity allows, or the CPU quota of its cgroups
    /// if that is less, rounded up.
    package static let coreCount: Int = {
        let allowed = clinux_allowed_processors()
        let online = allowed > 0 ? Int(allowed) : Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        return coreCount(online: online, quota: ProcessorQuota().processors)
    }()

    static func coreCount(online: Int, quota: Double?) -> Int {
        max(1, Int(min(Double(online), (quota ?? .infinity).rounded(.up))))
    }

    /// Creates and starts the loops.
    ///
    /// Also makes the process ignore SIGPIPE: a write to a closed connection fails with an error instead of ending the
    /// process. And makes the C library return large buffers to the system when they are freed.
    ///
    /// - Throws: ``SystemError`` when the process has no descriptors left.
    package init(count: Int = EventLoopGroup.coreCount) throws {
        Self.prepareProcess
        loops = try (0..<count).map { try EventLoop(label: "loop-\($0)") }
        for loop in loops { loop.start() }
    }

    /// Runs once: if two threads call `mallopt` at the same time, and the C library's `malloc` has not been used before
    /// (ThreadSanitizer has its own), the C library ends the process when they end.
    private static let prepareProcess: Void = {
        signal(SIGPIPE, SIG_IGN)
        // Setting the default value fixes it. Otherwise the C library raises the threshold and keeps buffers as large
        // as the largest that was freed once.
        _ = mallopt(M_MMAP_THRESHOLD, 128 * 1024)
    }()

    /// Ends the loops and blocks until they have ended. Stop everything that lives on them first. Must not be called on
    /// a loop.
    package func shutdown() {
        for loop in loops { loop.stop() }
        for loop in loops { loop.join() }
    }
}
