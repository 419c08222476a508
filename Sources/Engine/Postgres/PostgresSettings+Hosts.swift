import EventLoop
import Net

/// An address of the database: what a single attempt to connect is for.
struct PostgresAddress: Hashable, Sendable {
    /// The host of the connection string: the name that a certificate must have, an address, or a directory of Unix
    /// sockets. `nil` for libpq's default directory.
    var host: String?
    /// The numeric address; `nil` for a directory.
    var hostaddr: String?
    /// `nil` for libpq's default port.
    var port: String?
}

extension PostgresAddress: CustomStringConvertible {
    /// The address in libpq's words.
    var description: String {
        let name = host.map { "\"\($0)\"" } ?? hostaddr.map { "\"\($0)\"" } ?? "the default socket"
        let number = hostaddr.flatMap { $0 == host || host == nil ? nil : " (\($0))" } ?? ""
        return name + number + (port.map { ", port \($0)" } ?? "")
    }
}

extension PostgresSettings {
    /// Calls `body` on `loop`, possibly before this returns, with the addresses of all hosts, in the order of the
    /// connection string. An unknown host is left out. Fails if no host is known.
    ///
    /// libpq would resolve the hosts in `PQconnectStart` and block. Names are looked up each time, since a failover
    /// may have moved them.
    func resolve(
        on loop: EventLoop,
        _ body: @escaping @Sendable (Swift.Result<[PostgresAddress], PostgresError>) -> Void
    ) {
        let hosts = hosts
        let names = Set(hosts.compactMap(\.nameToLookUp))
        guard !names.isEmpty else { return body(.success(hosts.map(\.withoutLookUp))) }
        resolver.refreshAddresses(of: names, on: loop) { found in
            let addresses = hosts.flatMap { host -> [PostgresAddress] in
                guard let name = host.nameToLookUp else { return [host.withoutLookUp] }
                guard case .success(let found) = found[name] else { return [] }
                return found.map { PostgresAddress(host: name, hostaddr: $0.host, port: host.port) }
            }
            guard !addresses.isEmpty else {
                let failures = found.values.compactMap {
                    if case .failure(let failure) = $0 { "\(failure)" } else { nil }
                }
                return body(.failure(PostgresError(.unavailable, detail: failures.sorted().joined(separator: "; "))))
            }
            body(.success(addresses))
        }
    }
}

extension PostgresAddress {
    /// The host, if it is a name without an address.
    fileprivate var nameToLookUp: String? {
        guard hostaddr == nil, let host, !host.isEmpty else { return nil }
        // A directory of Unix sockets. "@" is the abstract namespace (libpq manual, "host").
        if host.hasPrefix("/") || host.hasPrefix("@") { return nil }
        return SocketAddress(host) == nil ? host : nil
    }

    /// The address of a host that needs no look-up.
    fileprivate var withoutLookUp: PostgresAddress {
        guard hostaddr == nil, let host, SocketAddress(host) != nil else { return self }
        return PostgresAddress(host: host, hostaddr: host, port: port)
    }
}
