import EventLoop
import HTTPServer
import HTTPTypes
import Locking
import Logging
import Net

/// The rate limits of requests with users' tokens, by user and by address. Shared by all event loops of a server.
final class UserRequestLimits: Sendable {
    /// The minimum time between two warnings about an untrusted proxy.
    private static let warningInterval = Duration.seconds(60)

    private let users: RequestLimit<Int64>
    private let addresses: RequestLimit<SocketAddress.Network>
    private let logger: Logger
    /// When the next warning about an untrusted proxy may be logged.
    private let nextWarning = Locked<MonotonicTime?>(nil)

    /// - Parameters:
    ///   - perUser: Requests a minute for each user; `nil` for no limit.
    ///   - perAddress: Requests a minute for each IPv4 address or IPv6 network of 64 bits; `nil` for no limit.
    init(perUser: Int?, perAddress: Int?, logger: Logger) {
        users = RequestLimit(perMinute: perUser)
        addresses = RequestLimit(perMinute: perAddress)
        self.logger = logger
    }

    /// Sets other limits.
    func apply(perUser: Int?, perAddress: Int?) {
        users.apply(perMinute: perUser)
        addresses.apply(perMinute: perAddress)
    }

    /// Counts a request against its source address, before any work is spent on verifying its token.
    ///
    /// - Throws: ``Problem`` 429.
    func chargeAddress(of request: Request) throws {
        guard let wait = addresses.take(from: request.clientAddress.network) else { return }
        recordProxy(request)
        throw Problem.tooManyRequests("Too many requests from this address.", wait: wait)
    }

    /// Counts a request against its user.
    ///
    /// - Throws: ``Problem`` 429.
    func chargeUser(_ userID: Int64) throws {
        guard let wait = users.take(from: userID) else { return }
        throw Problem.tooManyRequests("Too many requests from this user.", wait: wait)
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
