package import HTTPServer
import HTTPTypes
import LogOutput
package import Logging
import Net

/// A limit of requests a minute for each IPv4 address or IPv6 network of 64 bits. Shared by all event loops of a server.
package final class AddressLimit: Sendable {
    private let addresses: RequestLimit<SocketAddress.Network>
    /// The warnings about an untrusted proxy: at most one a minute, since any rejected client can send these fields.
    private let warnings: RepeatedLine

    /// - Parameter perMinute: 1 or more; `nil` for no limit.
    package init(perMinute: Int?, logger: Logger) {
        addresses = RequestLimit(perMinute: perMinute)
        warnings = RepeatedLine(logger, every: .seconds(60))
    }

    /// Sets another limit for further requests: 1 or more, or `nil` for none.
    package func apply(perMinute: Int?) {
        addresses.apply(perMinute: perMinute)
    }

    /// Counts a request against its source address.
    ///
    /// - Throws: ``Problem`` 429.
    package func charge(_ request: Request) throws {
        guard let wait = addresses.take(from: request.clientAddress.network) else { return }
        recordProxy(request)
        throw Problem.tooManyRequests("Too many requests from this address.", wait: wait)
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
