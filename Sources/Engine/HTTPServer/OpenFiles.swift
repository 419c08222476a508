import Glibc

/// The open files that a server needs. Each connection is one.
package struct OpenFiles: Sendable {
    /// The number of clients' connections that are to be possible at each port.
    private let connections: Int
    private let portCount: Int
    /// The number of files besides clients' connections.
    private let others: Int

    package init(connections: Int, portCount: Int = 1, others: Int) {
        self.connections = connections
        self.portCount = portCount
        self.others = others
    }

    /// The number of files in all.
    package var needed: Int { connections * portCount + others }

    /// Returns the number of clients' connections at each port that a limit of open files allows.
    ///
    /// Clients leave free what the process needs besides. Without any, it can neither connect nor open files, and Dispatch
    /// ends it: while jobs wait for a thread, Dispatch opens files in `/proc` once a second (`workqueue.c`). Of a low
    /// limit, clients get a quarter even so.
    package func connections(limit: Int) -> Int {
        min(connections, max(1, max(limit - others, limit / 4) / portCount))
    }

    // MARK: The limit of this process

    /// The limit to which the process may raise its limit of open files (`ulimit -Hn`).
    package static var hardLimit: Int { Int(clamping: limits.rlim_max) }

    private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)

    private static var limits: rlimit {
        var limits = rlimit()
        // It fails only for an invalid argument.
        precondition(getrlimit(resource, &limits) == 0)
        return limits
    }

    /// Raises the process's limit of open files (`ulimit -n`) to ``needed``, as far as it may. Returns the limit, which
    /// may be higher.
    package func raiseLimit() -> Int {
        var limits = Self.limits
        let raised = min(rlim_t(needed), limits.rlim_max)
        if raised > limits.rlim_cur {
            limits.rlim_cur = raised
            setrlimit(Self.resource, &limits)
        }
        return Int(clamping: Self.limits.rlim_cur)
    }
}
