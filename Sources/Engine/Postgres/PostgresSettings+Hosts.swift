import EventLoop
import Net

extension PostgresSettings {
    /// Calls `body` on `loop`, possibly before this returns, with the numeric addresses of each host: none for a directory
    /// of Unix sockets, `nil` for an unknown name. Fails if no host is known.
    ///
    /// libpq would resolve the hosts in `PQconnectStart` and block. Names are looked up each time, since a failover
    /// may have moved them.
    static func resolve(
        _ hosts: [String],
        on loop: EventLoop,
        _ body: @escaping @Sendable (Swift.Result<[[String]?], PostgresError>) -> Void
    ) {
        let names = Set(hosts.filter { addressesWithoutLookUp(of: $0) == nil })
        guard !names.isEmpty else { return body(.success(hosts.map(addressesWithoutLookUp))) }
        NameResolver.system.refreshAddresses(of: names, on: loop) { found in
            let addresses = hosts.map { host in
                addressesWithoutLookUp(of: host) ?? (try? found[host]?.get())?.map(\.host)
            }
            guard addresses.contains(where: { $0 != nil }) else {
                let failures = found.values.compactMap {
                    if case .failure(let failure) = $0 { "\(failure)" } else { nil }
                }
                return body(.failure(PostgresError(.unavailable, detail: failures.sorted().joined(separator: "; "))))
            }
            body(.success(addresses))
        }
    }

    /// Returns the addresses of a host that needs no look-up; `nil` for a name.
    static func addressesWithoutLookUp(of host: String) -> [String]? {
        // A directory of Unix sockets. "@" is the abstract namespace (libpq manual, "host").
        if host.isEmpty || host.hasPrefix("/") || host.hasPrefix("@") { return [] }
        return SocketAddress(host) == nil ? nil : [host]
    }
}
