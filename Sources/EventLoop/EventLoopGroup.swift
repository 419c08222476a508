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
    /// Also has the process ignore SIGPIPE: a peer that closes while we write is an error of that write, not the end of us.
    ///
    /// - Throws: ``SystemError`` when the process has no descriptors left.
    package init(count: Int = EventLoopGroup.coreCount) throws {
        _ = signal(SIGPIPE, SIG_IGN)
        loops = try (0..<count).map { try EventLoop(label: "loop-\($0)") }
        for loop in loops { loop.start() }
    }

    /// Ends the loops and waits until they have. Whatever lives on them must have been stopped. Not to be called from a loop.
    package func shutdown() {
        for loop in loops { loop.stop() }
        for loop in loops { loop.join() }
    }
}
