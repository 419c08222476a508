internal import Dispatch
internal import EventLoop
internal import Glibc

/// A resolver of host names off the loop: libpq would resolve them in `PQconnectStart` and block.
///
/// Concurrent calls share one look-up, so that an unresponsive resolver blocks only one thread.
actor HostResolver {
    typealias Answer = @Sendable (Swift.Result<[[String]?], PostgresError>) -> Void

    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let hosts: [String]
    private var waiting: [Answer] = []

    init(hosts: [String], loop: EventLoop) {
        self.hosts = hosts
        self.loop = loop
    }

    /// Calls `answer` on the loop with the numeric addresses of each host: none for a directory of Unix sockets, `nil`
    /// for an unknown name.
    func resolve(_ answer: @escaping Answer) {
        // Numeric addresses and paths need no look-up.
        let known = hosts.compactMap(HostAddresses.withoutLookUp)
        guard known.count < hosts.count else { return answer(.success(known)) }
        waiting.append(answer)
        guard waiting.count == 1 else { return }
        EventLoop.blocking.async { [hosts] in
            let found = HostAddresses.lookUp(hosts)
            self.loop.execute { self.assumeIsolated { $0.finish(found) } }
        }
    }

    private func finish(_ found: Swift.Result<[[String]?], PostgresError>) {
        let answers = waiting
        waiting = []
        for answer in answers { answer(found) }
    }
}

/// Look-ups of the numeric addresses of hosts.
package enum HostAddresses {
    /// Returns the addresses of a host that needs no resolver; `nil` for a name.
    static func withoutLookUp(_ host: String) -> [String]? {
        // A directory of Unix sockets. "@" is the abstract namespace (libpq manual, "host").
        if host.isEmpty || host.hasPrefix("/") || host.hasPrefix("@") { return [] }
        var address = in6_addr()
        let isNumeric = inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1
        return isNumeric ? [host] : nil
    }

    /// Returns the addresses of each host, `nil` for an unknown name. Fails if no host is known. Blocks.
    package static func lookUp(_ hosts: [String]) -> Swift.Result<[[String]?], PostgresError> {
        var failure = "no host"
        let found = hosts.map { host -> [String]? in
            if let known = withoutLookUp(host) { return known }
            var hints = addrinfo()
            hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
            var list: UnsafeMutablePointer<addrinfo>?
            let status = getaddrinfo(host, nil, &hints, &list)
            guard status == 0, let list else {
                failure = "\(host): \(String(cString: gai_strerror(status)))"
                return nil
            }
            defer { freeaddrinfo(list) }
            return sequence(first: list) { $0.pointee.ai_next }.compactMap(numeric)
        }
        guard found.contains(where: { $0 != nil }) else {
            return .failure(PostgresError(.unavailable, detail: failure))
        }
        return .success(found)
    }

    private static func numeric(_ entry: UnsafeMutablePointer<addrinfo>) -> String? {
        var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        let status = getnameinfo(
            entry.pointee.ai_addr,
            entry.pointee.ai_addrlen,
            &text,
            socklen_t(text.count),
            nil,
            0,
            NI_NUMERICHOST
        )
        guard status == 0 else { return nil }
        return text.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } }
    }
}
