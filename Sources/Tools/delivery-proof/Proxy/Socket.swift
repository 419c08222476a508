import CLinux
import EventLoop
import Glibc

/// The socket calls of the proxies. All sockets are non-blocking.
enum Socket {
    /// Accepts the next connection of a listener; returns `nil` if there is none.
    static func accept(_ listener: Int32) -> FileDescriptor? {
        let client = accept4(listener, nil, nil, Int32(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue))
        return client >= 0 ? FileDescriptor(owning: client) : nil
    }

    /// Connects to a Unix socket; returns `nil` if that is not possible at once.
    static func connect(path: String) -> FileDescriptor? {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let isSet = withUnsafeMutableBytes(of: &address.sun_path) { target in
            guard path.utf8.count < target.count else { return false }
            target.copyBytes(from: path.utf8)
            return true
        }
        guard isSet else { return nil }
        return connect(AF_UNIX, to: address)
    }

    /// Connects to a port of 127.0.0.1; returns `nil` if that is not possible.
    static func connect(port: Int) -> FileDescriptor? {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = UInt16(truncatingIfNeeded: port).bigEndian
        guard let descriptor = connect(AF_INET, to: address) else { return nil }
        var one: Int32 = 1
        setsockopt(descriptor.rawValue, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
        return descriptor
    }

    private static func connect<Address>(_ family: Int32, to address: Address) -> FileDescriptor? {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let raw = socket(family, type, 0)
        guard raw >= 0 else { return nil }
        let descriptor = FileDescriptor(owning: raw)
        let result = withUnsafeBytes(of: address) { bytes in
            Glibc.connect(raw, bytes.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t(bytes.count))
        }
        guard result == 0 || errno == EINPROGRESS else { return nil }
        return descriptor
    }
}
