internal import EventLoop
internal import Glibc

/// The file descriptors that a server does not use for its clients' connections.
///
/// The process needs them for connections to PostgreSQL and Kakao, for the journal and other files, and for Dispatch:
/// while jobs wait for a thread, Dispatch opens files in `/proc` once a second, and ends the process if it cannot
/// (`workqueue.c`).
///
/// The kernel assigns the lowest free number. If it assigns one of the reserve, all others are in use.
public struct DescriptorReserve: Sendable {
    /// The lowest number of the reserve.
    let first: Int32

    /// Reads the limit of the process (`ulimit -n`). Of a low limit, a quarter is the reserve.
    ///
    /// - Parameter loopCount: The number of event loops that accept connections. Each may take one of the reserve
    ///   before it pauses.
    init(loopCount: Int) {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else {
            first = .max
            return
        }
        first = Int32(clamping: limit.rlim_cur - min(rlim_t(Self.size(loopCount: loopCount)), limit.rlim_cur / 4))
    }

    /// The number of descriptors in the reserve, unless the limit is low: 32 for libraries and for some files and
    /// connections, and one for each event loop.
    public static func size(loopCount: Int) -> Int { 32 + loopCount }

    /// Whether the next descriptor would be one of the reserve, or there is none. Duplicates `descriptor` to find out.
    func isNext(duplicating descriptor: Int32) -> Bool {
        let number = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        guard number >= 0 else { return true }
        return FileDescriptor(owning: number).rawValue >= first
    }
}
