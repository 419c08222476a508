import CLinux
import EventLoop
import Glibc
import Net

/// The socket calls of the proxy. All sockets are non-blocking.
enum Socket {
    /// Listens on 127.0.0.1, on a port that the kernel chooses.
    static func listen() throws -> FileDescriptor {
        let descriptor = FileDescriptor(owning: try make(AF_INET))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        try withUnsafeBytes(of: &address) { bytes in
            let pointer = bytes.assumingMemoryBound(to: sockaddr.self).baseAddress
            guard bind(descriptor.rawValue, pointer, socklen_t(bytes.count)) == 0 else {
                throw SystemError(call: "bind")
            }
        }
        guard Glibc.listen(descriptor.rawValue, 128) == 0 else { throw SystemError(call: "listen") }
        return descriptor
    }

    /// Returns the port of a listener.
    static func port(of listener: Int32) throws -> Int {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        try withUnsafeMutableBytes(of: &address) { bytes in
            let pointer = bytes.assumingMemoryBound(to: sockaddr.self).baseAddress
            guard getsockname(listener, pointer, &length) == 0 else { throw SystemError(call: "getsockname") }
        }
        return Int(UInt16(bigEndian: address.sin_port))
    }

    /// Accepts the next connection of a listener; returns `nil` if there is none.
    static func accept(_ listener: Int32) -> FileDescriptor? {
        let client = accept4(listener, nil, nil, Int32(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue))
        guard client >= 0 else { return nil }
        var one: Int32 = 1
        setsockopt(client, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
        return FileDescriptor(owning: client)
    }

    /// Connects to a Unix socket; returns `nil` if that is not possible at once.
    static func connect(path: String) -> FileDescriptor? {
        guard let raw = try? make(AF_UNIX) else { return nil }
        let descriptor = FileDescriptor(owning: raw)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let isSet = withUnsafeMutableBytes(of: &address.sun_path) { target in
            guard path.utf8.count < target.count else { return false }
            target.copyBytes(from: path.utf8)
            return true
        }
        let result = withUnsafeBytes(of: &address) { bytes in
            Glibc.connect(
                descriptor.rawValue,
                bytes.assumingMemoryBound(to: sockaddr.self).baseAddress,
                socklen_t(bytes.count)
            )
        }
        guard isSet, result == 0 else { return nil }
        return descriptor
    }

    /// Connects to a port of 127.0.0.1; returns `nil` if that is not possible at once.
    static func connect(port: Int) -> FileDescriptor? {
        guard let raw = try? make(AF_INET) else { return nil }
        let descriptor = FileDescriptor(owning: raw)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = UInt16(truncatingIfNeeded: port).bigEndian
        var one: Int32 = 1
        setsockopt(raw, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
        let result = withUnsafeBytes(of: &address) { bytes in
            Glibc.connect(raw, bytes.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t(bytes.count))
        }
        guard result == 0 || errno == EINPROGRESS else { return nil }
        return descriptor
    }

    /// Makes the close of a socket reset the connection. Unsent bytes are discarded, and the peer gets an error.
    static func resetOnClose(_ descriptor: Int32) {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    private static func make(_ family: Int32) throws -> Int32 {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(family, type, 0)
        guard descriptor >= 0 else { throw SystemError(call: "socket") }
        return descriptor
    }
}
