/// A fault that strikes when a statement, or a request to Kakao, arrives at the proxy.
struct ProxyFault: Hashable, Sendable, CustomStringConvertible {
    enum Kind: String, CaseIterable, Sendable {
        /// The connection is reset, and the statement is not forwarded.
        case cutBefore = "cut-before"
        /// The statement is executed and committed; the connection is reset before the response.
        case cutAfter = "cut-after"
        /// The statement is executed and committed; the connection is reset after half of the response.
        case cutInside = "cut-inside"
        /// The connection is reset; the statement keeps its locks and is committed later.
        case lateCommit = "late-commit"
        /// The server is stopped (SIGSTOP) and continued later. The statement is forwarded in the meantime.
        case stop
        /// The server is killed (SIGKILL) and restarted. The statement is forwarded.
        case kill
        /// PostgreSQL is unreachable for one server: no bytes are forwarded, and new connections hang.
        case hang
        /// PostgreSQL is unreachable for all servers: connections are reset, and new ones are refused.
        case refuse
        /// The connection to Kakao is reset, and nothing of the request is forwarded.
        case requestBefore = "request-before"
        /// The connection to Kakao is reset after half of the request's body.
        case requestInside = "request-inside"
        /// Kakao has carried out the request; the connection is reset before the response.
        case requestAfter = "request-after"
        /// Kakao has carried out the request; the connection is closed after half of the response.
        case responseInside = "response-inside"
    }

    let kind: Kind
    /// The duration as a multiple of the lease; 0 for a fault that is over at once.
    let leases: Double

    private init(_ kind: Kind, leases: Double = 0) {
        self.kind = kind
        self.leases = leases
    }

    static let kill = ProxyFault(.kill)

    /// All faults of the proof.
    static let all: [ProxyFault] = [
        ProxyFault(.cutBefore), ProxyFault(.cutAfter), ProxyFault(.cutInside),
        ProxyFault(.lateCommit, leases: 0.5), ProxyFault(.lateCommit, leases: 2),
        ProxyFault(.stop, leases: 0.05), ProxyFault(.stop, leases: 0.3), ProxyFault(.stop, leases: 1.2),
        kill, ProxyFault(.hang, leases: 1.2), ProxyFault(.refuse, leases: 1.2),
    ]

    /// The faults between a server and Kakao.
    static let ofKakao: [ProxyFault] = [
        ProxyFault(.requestBefore), ProxyFault(.requestInside), ProxyFault(.requestAfter), ProxyFault(.responseInside),
    ]

    /// Whether the fault strikes at a request to Kakao, and not at a statement.
    var isOfKakao: Bool { Self.ofKakao.contains(self) }

    /// The faults that are injected in real time. With a lease of 20 s they last 24 s or 75 s.
    static let realTime: [ProxyFault] = [
        ProxyFault(.stop, leases: 1.2), ProxyFault(.refuse, leases: 1.2), ProxyFault(.refuse, leases: 3.75),
    ]

    /// Parses a text such as `cut-before` or `stop-1.2`.
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

    /// Returns whether a server may lose its lease, with the batches held under it, to one of `servers`.
    func mayLoseLease(servers: Int) -> Bool {
        kind == .kill || servers > 1 && leases >= 1
    }

    var description: String { leases == 0 ? kind.rawValue : "\(kind.rawValue)-\(leases.shortest)" }
}

extension Double {
    /// The number without a fraction of zero.
    fileprivate var shortest: String {
        self == rounded() ? String(Int(clamping: Int64(self))) : String(self)
    }
}
