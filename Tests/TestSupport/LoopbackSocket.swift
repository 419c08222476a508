import EventLoop
import Glibc

/// Blocking TCP sockets on the loopback address. The caller closes them. Programs that are started meanwhile do not
/// inherit them.
package enum LoopbackSocket {
    /// Opens a socket that listens on a port chosen by the kernel.
    ///
    /// - Parameter backlog: The number of connections that may wait to be accepted.
    /// - Throws: ``SystemError``.
    package static func listen(backlog: Int32 = 64) throws -> (descriptor: Int32, port: UInt16) {
        let listener = try make()
        var address = address(0)
        let isListening = with(&address) { pointer, length in
            var length = length
            return bind(listener, pointer, length) == 0 && Glibc.listen(listener, backlog) == 0
                && getsockname(listener, pointer, &length) == 0
        }
        guard isListening else {
            let error = SystemError(call: "listen")
            close(listener)
            throw error
        }
        return (listener, UInt16(bigEndian: address.sin_port))
    }

    /// Connects to a port. Each write is sent at once (`TCP_NODELAY`).
    ///
    /// - Parameters:
    ///   - source: The last byte of the client's address, 127.0.0.x.
    ///   - prepare: Sets socket options before the socket connects.
    /// - Throws: ``SystemError``.
    package static func connect(
        to port: UInt16,
        from source: UInt8 = 1,
        _ prepare: (Int32) -> Void = { _ in }
    ) throws -> Int32 {
        let client = try make()
        var one: Int32 = 1
        setsockopt(client, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
        prepare(client)
        var own = address(0, source)
        var address = address(port)
        guard source == 1 || with(&own, { bind(client, $0, $1) == 0 }),
            with(&address, { Glibc.connect(client, $0, $1) == 0 })
        else {
            let error = SystemError(call: "connect")
            close(client)
            throw error
        }
        return client
    }

    /// Starts to connect to a port, and does not wait until it is connected.
    ///
    /// - Throws: ``SystemError``.
    package static func connecting(to port: UInt16) throws -> Int32 {
        let client = try make()
        _ = fcntl(client, F_SETFL, O_NONBLOCK)
        var address = address(port)
        _ = with(&address) { Glibc.connect(client, $0, $1) == 0 }
        return client
    }

    /// Sets the time after which a blocking call on a socket fails.
    ///
    /// - Parameter options: `SO_RCVTIMEO`, `SO_SNDTIMEO`.
    package static func setTimeout(seconds: Int, of descriptor: Int32, _ options: Int32...) {
        var limit = timeval(tv_sec: seconds, tv_usec: 0)
        for option in options {
            setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
    }

    private static func make() throws -> Int32 {
        let number = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard number >= 0 else { throw SystemError(call: "socket") }
        return number
    }

    /// - Parameter host: The last byte of the address, 127.0.0.x.
    private static func address(_ port: UInt16, _ host: UInt8 = 1) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = (INADDR_LOOPBACK - 1 + UInt32(host)).bigEndian
        return address
    }

    private static func with(
        _ address: inout sockaddr_in,
        _ body: (UnsafeMutablePointer<sockaddr>, socklen_t) -> Bool
    ) -> Bool {
        withUnsafeMutablePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}

/// Sends all of `bytes` over a blocking socket. Returns false when the peer has closed the connection.
package func sendAll(_ bytes: some Collection<UInt8>, to descriptor: Int32) -> Bool {
    var rest = Array(bytes)[...]
    while !rest.isEmpty {
        let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        guard count > 0 else { return false }
        rest.removeFirst(count)
    }
    return true
}

/// Runs `body` on a new thread, where it may block.
package func startThread(_ body: @escaping @Sendable () -> Void) {
    final class Box: Sendable {
        let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) {
            self.body = body
        }
    }
    var thread = pthread_t()
    let box = Unmanaged.passRetained(Box(body)).toOpaque()
    let result = pthread_create(
        &thread,
        nil,
        { box in
            guard let box else { return nil }
            Unmanaged<Box>.fromOpaque(box).takeRetainedValue().body()
            return nil
        },
        box
    )
    precondition(result == 0, "The thread could not be created.")
    pthread_detach(thread)
}
