import EventLoop
import Net

/// A resolver of the hosts of a database off the loop: libpq would resolve them in `PQconnectStart` and block.
///
/// Concurrent calls share one look-up. Names are looked up anew each time, since a failover may have moved them.
actor HostResolver {
    typealias Answer = @Sendable (Swift.Result<[[String]?], PostgresError>) -> Void

    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let hosts: [String]
    private var waiting: [Answer] = []
    /// What the look-up in flight has found, by host.
    private var found: [String: NameResolver.Answer] = [:]

    init(hosts: [String], loop: EventLoop) {
        self.hosts = hosts
        self.loop = loop
    }

    /// Calls `answer` on the loop with the numeric addresses of each host: none for a directory of Unix sockets, `nil`
    /// for an unknown name. Fails if no host is known.
    func resolve(_ answer: @escaping Answer) {
        let names = Set(hosts.filter { Self.withoutLookUp($0) == nil })
        guard !names.isEmpty else { return answer(.success(hosts.map(Self.withoutLookUp))) }
        waiting.append(answer)
        guard waiting.count == 1 else { return }
        found = [:]
        for name in names {
            NameResolver.system.forget(name)
            NameResolver.system.addresses(of: name, on: loop) { answer in
                self.assumeIsolated { $0.receive(answer, of: name, among: names.count) }
            }
        }
    }

    private func receive(_ answer: NameResolver.Answer, of name: String, among count: Int) {
        found[name] = answer
        guard found.count == count else { return }
        let answers = waiting
        waiting = []
        let addresses = hosts.map { host in
            Self.withoutLookUp(host) ?? (try? found[host]?.get())?.map(\.host)
        }
        let result: Swift.Result<[[String]?], PostgresError>
        if addresses.contains(where: { $0 != nil }) {
            result = .success(addresses)
        } else {
            let failures = found.values.compactMap { if case .failure(let failure) = $0 { "\(failure)" } else { nil } }
            result = .failure(PostgresError(.unavailable, detail: failures.sorted().joined(separator: "; ")))
        }
        for answer in answers { answer(result) }
    }

    /// Returns the addresses of a host that needs no resolver; `nil` for a name.
    static func withoutLookUp(_ host: String) -> [String]? {
        // A directory of Unix sockets. "@" is the abstract namespace (libpq manual, "host").
        if host.isEmpty || host.hasPrefix("/") || host.hasPrefix("@") { return [] }
        return SocketAddress(host) == nil ? nil : [host]
    }
}
