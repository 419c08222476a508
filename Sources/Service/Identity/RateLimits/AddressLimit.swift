import EventLoop
package import HTTPServer
import HTTPTypes
import Locking
package import Logging
import Net

/// A limit of requests a minute for each IPv4 address or IPv6 network of 64 bits. Shared by all event loops of a server.
package final class AddressLimit: Sendable {
    /// The minimum time between two warnings about an untrusted proxy.
    private static let warningInterval = Duration.seconds(60)

    private let addresses: RequestLimit<SocketAddress.Network>
    private let logger: Logger
    /// When the next warning about an untrusted proxy may be logged.
    private let nextWarning = Locked<MonotonicTime?>(nil)

    /// - Parameter perMinute: 1 or more; `nil` for no limit.
    package init(perMinute: Int?, logger: Logger) {
        addresses = RequestLimit(perMinute: perMinute)
        self.logger = logger
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
    /// behind it share one limit. At most one warning a minute is logged, since any rejected client can send
    /// these fields.
    private func recordProxy(_ request: Request) {
        guard !request.isForwarded,
            let field = ForwardedField.allCases.first(where: { request[$0.name] != nil })
        else { return }
        let isTime = nextWarning.withLock { next in
            let now = MonotonicTime.now
            if let next, next > now { return false }
            next = now + Self.warningInterval
            return true
        }
        guard isTime else { return }
        logger.warning(
            "Requests rejected from an address that sends \(field.name.rawName). If it is your proxy, add it to http.trusted_proxies",
            metadata: ["remote": "\(request.remoteAddress.host)"]
        )
    }
}
