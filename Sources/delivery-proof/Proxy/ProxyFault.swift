/// A fault that strikes when a statement arrives at the proxy.
struct ProxyFault: Hashable, Sendable, CustomStringConvertible {
    enum Kind: String, CaseIterable, Sendable {
        /// The connection is reset, and the statement is not forwarded.
        case cutBefore = "cut-before"
        /// The statement is executed and committed; the connection is reset before the response.
        case cutAfter = "cut-after"
        /// The same, after half of the response.
        case cutInside = "cut-inside"
        /// The connection is reset, and the statement, which holds its locks, is committed later.
        case lateCommit = "late-commit"
        /// The server is stopped (SIGSTOP) and continued later. The statement is forwarded meanwhile.
        case stop
        /// The server is killed (SIGKILL) and started again. The statement is forwarded.
        case kill
        /// PostgreSQL is unreachable for the server: nothing is forwarded, and new connections hang.
        case hang
        /// PostgreSQL is unreachable for every server: connections are reset, and new ones refused.
        case refuse
    }

    let kind: Kind
    /// How long it lasts, as a multiple of the lease; 0 for what is over at once.
    let leases: Double

    private init(_ kind: Kind, leases: Double = 0) {
        self.kind = kind
        self.leases = leases
    }

    static let kill = ProxyFault(.kill)

    /// Every fault of the proof.
    static let all: [ProxyFault] = [
        ProxyFault(.cutBefore), ProxyFault(.cutAfter), ProxyFault(.cutInside),
        ProxyFault(.lateCommit, leases: 0.5), ProxyFault(.lateCommit, leases: 2),
        ProxyFault(.stop, leases: 0.05), ProxyFault(.stop, leases: 0.3), ProxyFault(.stop, leases: 1.2),
        kill, ProxyFault(.hang, leases: 1.2), ProxyFault(.refuse, leases: 1.2),
    ]

    /// The faults that are played in real time: with a lease of 20 s, 24 s and 75 s.
    static let realTime: [ProxyFault] = [
        ProxyFault(.stop, leases: 1.2), ProxyFault(.refuse, leases: 1.2), ProxyFault(.refuse, leases: 3.75),
    ]

    /// Reads `cut-before`, `stop-1.2`.
    init?(_ text: String) {
        for kind in Kind.allCases {
            if text == kind.rawValue {
                self.init(kind)
                return
            }
            guard text.hasPrefix(kind.rawValue + "-"), let leases = Double(text.dropFirst(kind.rawValue.count + 1)),
                (0...100).contains(leases)
            else { continue }
            self.init(kind, leases: leases)
            return
        }
        return nil
    }

    /// Whether a server may lose its lease, and with it what it holds, to one of `servers`.
    func mayLoseLease(servers: Int) -> Bool {
        kind == .kill || servers > 1 && leases >= 1
    }

    var description: String { leases == 0 ? kind.rawValue : "\(kind.rawValue)-\(leases.shortest)" }
}

extension Double {
    /// Without a fraction that says nothing.
    fileprivate var shortest: String {
        self == rounded() ? String(Int(clamping: Int64(self))) : String(self)
    }
}
