internal import EventLoop
internal import HTTPServer
internal import HTTPTypes
internal import Locking
internal import Logging

/// How often users' apps may call the device endpoints: each user, and each address. For all loops of a server.
final class DeviceRequestLimits: Sendable {
    /// How often it is said that a proxy is not trusted.
    private static let noteInterval = Duration.seconds(60)

    private let users: RequestLimit<Int64>?
    private let addresses: RequestLimit<SocketAddress.Network>?
    private let logger: Logger
    /// When a proxy that is not trusted may be noted again.
    private let nextNote = Locked<MonotonicTime?>(nil)

    /// - Parameters:
    ///   - perUser: Requests a minute; `nil` for no limit.
    ///   - perAddress: The same of an IPv4 address or an IPv6 network of 64 bits.
    init(perUser: Int?, perAddress: Int?, logger: Logger) {
        users = perUser.map(RequestLimit.init)
        addresses = perAddress.map(RequestLimit.init)
        self.logger = logger
    }

    /// Counts a request against the address that it comes from: before anything is spent on finding out whose its token is.
    ///
    /// - Throws: ``Problem`` 429.
    func takeFromAddress(of request: Request) throws {
        guard let wait = addresses?.take(from: request.clientAddress.network) else { return }
        recordProxy(request)
        throw Problem.tooManyRequests("Too many requests came from this address.", wait: wait)
    }

    /// Counts a request against its user.
    ///
    /// - Throws: ``Problem`` 429.
    func take(from userID: Int64) throws {
        guard let wait = users?.take(from: userID) else { return }
        throw Problem.tooManyRequests("Too many requests came from this user.", wait: wait)
    }

    /// Says so when phones may be refused for their proxy's sake, which nobody has named in the settings. At most once a minute: who is
    /// refused may write that field as well.
    private func recordProxy(_ request: Request) {
        guard request[.forwardedFor] != nil, request.clientAddress == request.remoteAddress else { return }
        let isTime = nextNote.withLock { next in
            let now = MonotonicTime.now
            if let next, next > now { return false }
            next = now + Self.noteInterval
            return true
        }
        guard isTime else { return }
        logger.warning(
            "Refused requests of an address that sends X-Forwarded-For: if it is your proxy, name it in http.trusted_proxies",
            metadata: ["remote": "\(request.remoteAddress.host)"]
        )
    }
}
