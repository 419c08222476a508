import CLinux
import EventLoop
import Glibc

extension SocketAddress {
    /// Returns this machine's own IPv4 address on its route to other networks, at which the clients of its network reach
    /// it; `nil` without such a route.
    package static func ofThisMachine() -> SocketAddress? {
        let number = socket(AF_INET, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard number >= 0 else { return nil }
        let descriptor = FileDescriptor(owning: number)
        // Connecting a datagram socket sends nothing: the kernel only chooses the route, and with it the address. This
        // one is of nobody (RFC 5737).
        let other = SocketAddress("192.0.2.1")?.with(port: 9)
        guard other?.withKernelForm({ connect(number, $0, $1) }) == 0 else { return nil }
        return try? descriptor.localAddress().with(port: 0)
    }

    /// Whether a listener at this address accepts connections to each address of the machine: `0.0.0.0`, `::`.
    package var isWildcard: Bool { bits == 0xFFFF << 32 || bits == 0 }

    /// Whether only this machine reaches the address: `127.0.0.0/8`, `::1`.
    package var isLoopback: Bool { bits == 1 || bits.map { $0 >> 24 } == 0xFFFF_7F }
}
