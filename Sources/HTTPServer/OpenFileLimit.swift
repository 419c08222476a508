internal import Glibc

/// The limit of open files of this process. Each connection is an open file.
package enum OpenFileLimit {
    /// The limit at present (`ulimit -n`).
    package static var soft: Int { Int(clamping: current.rlim_cur) }

    /// The limit to which the process may raise it (`ulimit -Hn`).
    package static var hard: Int { Int(clamping: current.rlim_max) }

    private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)

    private static var current: rlimit {
        var limit = rlimit()
        // It fails only for an invalid argument.
        precondition(getrlimit(resource, &limit) == 0)
        return limit
    }

    /// Returns the number of connections that a limit allows: clients leave free the `others` that the process needs
    /// besides. Without any, it can neither connect nor open files, and Dispatch ends it: while jobs wait for a thread,
    /// Dispatch opens files in `/proc` once a second (`workqueue.c`). Of a low limit, clients get a quarter even so.
    package static func connections(limit: Int, others: Int) -> Int {
        max(1, limit - others, limit / 4)
    }

    /// Raises the limit to `count`, as far as the process may. A higher limit remains.
    package static func raise(to count: Int) {
        var limit = current
        let raised = min(rlim_t(count), limit.rlim_max)
        guard raised > limit.rlim_cur else { return }
        limit.rlim_cur = raised
        setrlimit(resource, &limit)
    }
}
