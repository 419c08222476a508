internal import CLinux
internal import Glibc

/// The loops of a process: as many as it has cores.
package final class EventLoopGroup: Sendable {
    package let loops: [EventLoop]

    /// The processors that this process may use.
    package static var coreCount: Int {
        max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))
    }

    /// Makes the loops and starts them.
    ///
    /// Also has the process ignore SIGPIPE: a peer that closes while we write is an error of that write, not the end of us. And has it
    /// give large buffers back to the system when they are freed.
    ///
    /// - Throws: ``SystemError`` when the process has no descriptors left.
    package init(count: Int = EventLoopGroup.coreCount) throws {
        _ = signal(SIGPIPE, SIG_IGN)
        // Set to its default, so that it stays: otherwise the C library keeps buffers as large as any that was freed once.
        _ = mallopt(M_MMAP_THRESHOLD, 128 * 1024)
        loops = try (0..<count).map { try EventLoop(label: "loop-\($0)") }
        for loop in loops { loop.start() }
    }

    /// Ends the loops and waits until they have. Whatever lives on them must have been stopped. Not to be called from a loop.
    package func shutdown() {
        for loop in loops { loop.stop() }
        for loop in loops { loop.join() }
    }
}
