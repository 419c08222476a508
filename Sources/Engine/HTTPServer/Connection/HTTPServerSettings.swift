package import Net

/// The settings of a server: its address, and the limits and timeouts for clients.
package struct HTTPServerSettings: Sendable {
    /// The address to listen on, numeric: `127.0.0.1`, `0.0.0.0`, `::1`, `::`.
    package var host = "127.0.0.1"
    /// The port to listen on. 0 lets the kernel choose; ``HTTPServer/port`` returns the choice.
    package var port = 0
    /// The certificate and key; `nil` for plain HTTP. ``HTTPServer/apply(_:)`` replaces them.
    package var tls: TLSContext?
    package var headLimits = HeadLimits()
    /// The maximum length of a request body in bytes; a longer one is rejected with 413. A streaming route has its own
    /// limit.
    package var maximumBodyBytes = 1 << 20
    /// The maximum number of body bytes in memory at a time, over all connections; at least ``maximumBodyBytes``. A
    /// body that does not fit is rejected with 503. The first 4 KiB of each connection are not counted.
    package var maximumHeldBytes = 64 << 20
    /// The time limit from a request's first byte to the end of its head. Also the limit for a TLS handshake.
    package var headerTimeout = Duration.seconds(10)
    /// The time limit for a peer to send a body or to take a response. It restarts as long as the peer averages at
    /// least ``minimumBytesPerSecond``.
    package var bodyTimeout = Duration.seconds(30)
    /// The average rate at which a peer must send a body or take a response, measured over ``bodyTimeout``.
    package var minimumBytesPerSecond = 500
    /// The time limit between two requests on a connection. At most 5 s for connections that become idle while
    /// more than three quarters of ``maximumConnections`` are open.
    package var idleTimeout = Duration.seconds(75)
    /// The time limit for a peer to close its side after the last response was sent and the server closed its own side.
    package var lingerTimeout = Duration.seconds(2)
    /// The maximum number of connections. For a further one, the connection that has been idle the longest on its loop is closed,
    /// apart from those of ``trustedProxies`` and those exempted by a request's check. If none has been idle for
    /// ``shortestIdleTime``, the further one waits in the kernel's queue.
    package var maximumConnections = 10_000
    /// The time for which a connection must have been idle to be closed for another, and that a new one has when the server stops. A
    /// new one can send its request in it.
    package var shortestIdleTime = Duration.seconds(1)
    /// The maximum number of connections from one IPv4 address or IPv6 /64 network; `nil` for no limit. Beyond it, the
    /// address's longest idle connection is closed, or the new one if none is idle. An IPv6 /48 may have four times as many, at
    /// most a quarter of all. Two kinds are not counted:
    /// connections from ``trustedProxies``, which carry all clients, and those exempted by a request's check
    /// (``Request/exemptsConnection``).
    package var maximumConnectionsPerAddress: Int?
    /// The proxies whose statement of the client's address is believed: see ``Request/clientAddress``.
    package var trustedProxies = TrustedProxies.none
    /// The field in which these proxies state it.
    package var forwardedField = ForwardedField.xForwardedFor

    /// The limit of body bytes in memory, which allows the largest body.
    var bodyBudget: Int { max(maximumHeldBytes, maximumBodyBytes) }

    package init() {}
}
