/// How a server listens, and what it grants a client.
package struct HTTPServerSettings: Sendable {
    /// A numeric address: `127.0.0.1`, `0.0.0.0`, `::1`, `::`.
    package var host = "127.0.0.1"
    /// 0 has the kernel choose one: ``HTTPServer/port`` tells it.
    package var port = 0
    /// Certificate and key; `nil` for plain HTTP. ``HTTPServer/use(_:)`` replaces them later.
    package var tls: TLSContext?
    package var headLimits = HeadLimits()
    /// Beyond it: 413. A route that reads its body as it comes has a limit of its own.
    package var maximumBodyBytes = 1 << 20
    /// Bytes of bodies that are held in memory at a time, over all connections; no less than ``maximumBodyBytes``. A body that does not fit
    /// is refused with 503. The first 4 KiB of each are free.
    package var maximumHeldBytes = 64 << 20
    /// From the first byte of a request to its last header; also for a TLS handshake.
    package var headerTimeout = Duration.seconds(10)
    /// For a body to come, and for a peer to take what is written to it. Whoever sends or takes ``minimumBytesPerSecond`` in that
    /// time gets as much time again.
    package var bodyTimeout = Duration.seconds(30)
    /// What a peer has to send of a body, or take of an answer, on average over ``bodyTimeout``.
    package var minimumBytesPerSecond = 500
    /// Between two requests on a connection.
    package var idleTimeout = Duration.seconds(75)
    /// For a peer to close too, once it has been sent the last answer and our side is shut.
    package var lingerTimeout = Duration.seconds(2)
    /// In all. More wait in the kernel's queue until one of these ends.
    package var maximumConnections = 10_000
    /// From one IPv4 address or IPv6 network of 64 bits; `nil` for no limit. For one more, the address's longest idle connection is closed;
    /// if none is idle, the new one is. Those of ``trustedProxies`` are not counted, as all clients come from there, nor those whose
    /// request a check has exempted (``Request/exemptsConnection``).
    package var maximumConnectionsPerAddress: Int?
    /// Who is believed where a request comes from: see ``Request/clientAddress``.
    package var trustedProxies = TrustedProxies.none

    package init() {}
}
