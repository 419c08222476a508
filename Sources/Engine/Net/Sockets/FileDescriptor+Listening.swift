import CLinux
package import EventLoop
import Glibc

extension FileDescriptor {
    /// Returns a non-blocking socket that listens on a numeric address and shares its port with the other loops'
    /// listeners.
    ///
    /// - Throws: ``SystemError`` that names the call and the address.
    package static func listening(on host: String, port: Int) throws -> FileDescriptor {
        let descriptor = try bound(to: host, port: port, options: [SO_REUSEADDR, SO_REUSEPORT])
        try descriptor.listen("\(host):\(port)")
        return descriptor
    }

    /// Takes ownership of a socket that is bound to an address, and listens as ``listening(on:port:)`` does.
    ///
    /// - Throws: ``SystemError`` if it cannot.
    package static func listening(_ socket: Int32) throws -> FileDescriptor {
        let descriptor = FileDescriptor(owning: socket)
        guard fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK) == 0, fcntl(socket, F_SETFD, FD_CLOEXEC) == 0
        else { throw SystemError(call: "fcntl") }
        try descriptor.listen("socket \(socket)")
        return descriptor
    }

    private func listen(_ address: String) throws {
        // Accepted connections inherit both options.
        // One `send` contains a whole response, so waiting to fill a packet would only delay it (Nagle's algorithm).
        try set(Int32(IPPROTO_TCP), TCP_NODELAY, to: 1)
        // Limits the kernel memory for a slow reader. By default the kernel buffers megabytes per connection.
        try set(Int32(IPPROTO_TCP), TCP_NOTSENT_LOWAT, to: Self.unsentLimit)
        guard Glibc.listen(rawValue, 4096) == 0 else { throw SystemError(call: "listen(\(address))") }
    }

    /// The maximum number of unsent bytes in the kernel: enough for the responses of a few round trips.
    private static let unsentLimit: Int32 = 128 * 1024

    /// Makes closing reset the connection, so that the kernel discards the bytes that the peer has not taken.
    package func resetOnClose() {
        var value = linger(l_onoff: 1, l_linger: 0)
        setsockopt(rawValue, SOL_SOCKET, SO_LINGER, &value, socklen_t(MemoryLayout<linger>.size))
    }

    private func set(_ level: Int32, _ option: Int32, to value: Int32) throws {
        var value = value
        guard setsockopt(rawValue, level, option, &value, socklen_t(MemoryLayout<Int32>.size)) == 0 else {
            throw SystemError(call: "setsockopt")
        }
    }

    /// Checks that no other server uses the port.
    ///
    /// With `SO_REUSEPORT`, a second server of the same user would share the port without an error and get half of the
    /// connections.
    ///
    /// - Throws: ``SystemError`` with `EADDRINUSE` if another server does.
    package static func checkIsFree(_ host: String, port: Int) throws {
        _ = try bound(to: host, port: port, options: [SO_REUSEADDR])
    }

    private static func bound(to host: String, port: Int, options: [Int32]) throws -> FileDescriptor {
        var hints = addrinfo()
        // Numeric only, so that this neither blocks nor leaves the choice of address to a name server.
        hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, String(port), &hints, &list) == 0, let address = list?.pointee else {
            throw SystemError(call: "getaddrinfo(\(host))", code: EINVAL)
        }
        defer { freeaddrinfo(list) }
        let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let number = socket(address.ai_family, type, 0)
        guard number >= 0 else { throw SystemError(call: "socket") }
        let descriptor = FileDescriptor(owning: number)
        for option in options { try descriptor.set(SOL_SOCKET, option, to: 1) }
        guard bind(number, address.ai_addr, address.ai_addrlen) == 0 else {
            throw SystemError(call: "bind(\(host):\(port))")
        }
        return descriptor
    }

    /// Returns the port that the kernel assigned to the socket.
    package func boundPort() throws -> Int {
        try localAddress().port
    }

    /// Returns the port at which a socket listens; `nil` if it is none that listens for TCP.
    package static func listeningPort(_ socket: Int32) -> Int? {
        var listens: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        guard getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0, listens == 1,
            let port = try? localAddress(socket).port, port != 0
        else { return nil }
        return port
    }

    /// Returns the address and the port of this end of the socket.
    func localAddress() throws -> SocketAddress { try Self.localAddress(rawValue) }

    /// Returns the address and the port of this end of a socket.
    package static func localAddress(_ socket: Int32) throws -> SocketAddress {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let result = withUnsafeMutablePointer(to: &storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &length) }
        }
        guard result == 0 else { throw SystemError(call: "getsockname") }
        return SocketAddress(storage)
    }
}
