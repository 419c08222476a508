import EventLoop
package import HTTPServer
import HTTPTypes
import LogOutput
package import Logging
import Net

/// A limit of requests a minute for each IPv4 address or IPv6 network of 64 bits; four times as many for an IPv6 site, of which
/// one line may have many networks. Shared by all event loops of a server.
package final class AddressLimit: Sendable {
    private let networks: RequestLimit<SocketAddress.Network>
    private let sites: RequestLimit<SocketAddress.Network>
    /// The warnings about an untrusted proxy: at most one a minute, since any rejected client can send these fields.
    private let warnings: RepeatedLine

    /// - Parameter perMinute: 1 or more; `nil` for no limit.
    package init(perMinute: Int?, logger: Logger) {
        networks = RequestLimit(perMinute: perMinute)
        sites = RequestLimit(perMinute: perMinute)
        warnings = RepeatedLine(logger, every: .seconds(60))
    }

    /// Sets another limit for further requests: 1 or more, or `nil` for none.
    package func apply(perMinute: Int?) {
        networks.apply(perMinute: perMinute)
        sites.apply(perMinute: perMinute)
    }

    /// Counts a request against its source address.
    ///
    /// - Throws: ``Problem`` 429.
    package func charge(_ request: Request) throws {
        guard let wait = take(from: request.clientAddress.network) else { return }
        recordProxy(request)
        throw Problem.tooManyRequests("Too many requests from this address.", wait: wait)
    }

    /// Counts a request against its source address. Returns whether the address has not exceeded the limit.
    package func admits(_ request: Request) -> Bool { take(from: request.clientAddress.network) == nil }

    /// Returns the time until a network may send a request; `nil` if it may send this one. What a network sends beyond its own
    /// limit does not count against its site.
    func take(from network: SocketAddress.Network, at now: MonotonicTime = .now) -> Duration? {
        if let wait = networks.take(from: network, at: now) { return wait }
        return network.site.flatMap { sites.take(from: $0, factor: SocketAddress.Network.networksPerSite, at: now) }
    }

    /// Logs a warning if the address may be a proxy that `http.trusted_proxies` does not name, so that all phones
    /// behind it share one limit.
    private func recordProxy(_ request: Request) {
        guard !request.isForwarded,
            let field = ForwardedField.allCases.first(where: { request[$0.name] != nil })
        else { return }
        warnings.write(
            "Requests rejected from an address that sends \(field.name.rawName). If it is your proxy, add it to http.trusted_proxies",
            ["remote": "\(request.remoteAddress.host)"]
        )
    }
}
