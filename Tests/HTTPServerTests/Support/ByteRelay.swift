import Dispatch
import EventLoop
import Glibc

/// Passes one connection on to a server, and sends what the client says one byte at a time.
final class ByteRelay: Sendable {
    let port: Int
    private let listener: FileDescriptor
    private let server: Int

    /// - Parameter server: The port to pass the connection on to.
    init(to server: Int) throws {
        let number = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard number >= 0 else { throw SystemError(call: "socket") }
        listener = FileDescriptor(owning: number)
        guard listen(number, 1) == 0 else { throw SystemError(call: "listen") }
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(number, $0, &length) }
        }
        guard result == 0 else { throw SystemError(call: "getsockname") }
        port = Int(in_port_t(bigEndian: address.sin_port))
        self.server = server
    }

    /// Serves one connection until either side ends it.
    func start() {
        DispatchQueue(label: "relay").async { [self] in
            let client = accept(listener.rawValue, nil, nil)
            guard client >= 0 else { return }
            let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            defer {
                close(client)
                close(server)
            }
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = in_port_t(self.server).bigEndian
            address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
            let result = withUnsafePointer(to: &address) { address in
                address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            guard result == 0 else { return }
            var one: Int32 = 1
            setsockopt(server, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
            relay(client, server)
        }
    }

    private func relay(_ client: Int32, _ server: Int32) {
        var waits = [
            pollfd(fd: client, events: Int16(POLLIN), revents: 0),
            pollfd(fd: server, events: Int16(POLLIN), revents: 0),
        ]
        var buffer = [UInt8](repeating: 0, count: 16 * 1024)
        while poll(&waits, 2, 20_000) > 0 {
            if waits[0].revents != 0 {
                let count = read(client, &buffer, buffer.count)
                guard count > 0 else { return }
                for index in 0..<count { send(server, &buffer[index], 1, Int32(MSG_NOSIGNAL)) }
            }
            if waits[1].revents != 0 {
                let count = read(server, &buffer, buffer.count)
                guard count > 0 else { return }
                send(client, &buffer, count, Int32(MSG_NOSIGNAL))
            }
        }
    }
}
