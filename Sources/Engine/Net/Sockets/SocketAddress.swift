package import CLinux
import Glibc

/// An address with a port. It is compact, because each connection stores that of its peer.
package struct SocketAddress: Sendable, Hashable, CustomStringConvertible {
    /// The addresses that belong to one client: an IPv4 address, or the upper half of an IPv6 address, because a client
    /// may choose the lower half.
    package struct Network: Hashable, Sendable {
        private let bits: UInt64
        private let isV6: Bool

        fileprivate init(v4 address: UInt32) {
            bits = UInt64(address)
            isV6 = false
        }

        fileprivate init(v6 high: UInt64) {
            bits = high
            isV6 = true
        }

        /// The networks for which a ``site`` counts in limits: a carrier may serve many phones from one.
        package static let networksPerSite = 4

        /// The /48 of an IPv6 network, of which one line may have 256 networks or more; `nil` for IPv4.
        package var site: Network? { isV6 ? Network(v6: bits & ~0xFFFF) : nil }
    }

    private enum Kind: Hashable {
        /// Address and port, in host order.
        case v4(UInt32, port: UInt16)
        /// The two halves of the address, and the port, in host order.
        case v6(UInt64, UInt64, port: UInt16)
        case unknown
    }

    private let kind: Kind

    /// Creates an address of the kernel's form.
    package init(_ storage: sockaddr_storage) {
        kind = withUnsafeBytes(of: storage) { bytes in
            switch Int32(storage.ss_family) {
            case AF_INET:
                let address = bytes.loadUnaligned(as: sockaddr_in.self)
                return .v4(UInt32(bigEndian: address.sin_addr.s_addr), port: UInt16(bigEndian: address.sin_port))
            case AF_INET6:
                let port = bytes.loadUnaligned(as: sockaddr_in6.self).sin6_port
                // The address follows the family, port and flow information.
                let high = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
                let low = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self))
                return Self.kind(high, low, port: UInt16(bigEndian: port))
            default:
                return .unknown
            }
        }
    }

    /// Parses a numeric address without a port. Returns `nil` for invalid text.
    ///
    /// - Parameter text: Four decimal numbers separated by points, or IPv6 in any notation of RFC 4291 §2.2. No name is
    ///   resolved.
    package init?(_ text: some StringProtocol) {
        var v4 = in_addr()
        var v6 = in6_addr()
        // C would stop reading at a NUL.
        guard !text.utf8.contains(0) else { return nil }
        if inet_pton(AF_INET, String(text), &v4) == 1 {
            kind = .v4(UInt32(bigEndian: v4.s_addr), port: 0)
        } else if inet_pton(AF_INET6, String(text), &v6) == 1 {
            kind = withUnsafeBytes(of: v6) { bytes in
                Self.kind(
                    UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
                    UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)),
                    port: 0
                )
            }
        } else {
            return nil
        }
    }

    /// Returns an IPv6 address, or the IPv4 address that it stands for (RFC 4291 §2.5.5.2): that of an IPv4 client of a socket that
    /// listens on `::`.
    private static func kind(_ high: UInt64, _ low: UInt64, port: UInt16) -> Kind {
        guard high == 0, low >> 32 == 0xFFFF else { return .v6(high, low, port: port) }
        return .v4(UInt32(truncatingIfNeeded: low), port: port)
    }

    /// The network by which connections and requests are counted.
    package var network: Network {
        switch kind {
        case .v4(let address, _): Network(v4: address)
        case .v6(let high, _, _): Network(v6: high)
        case .unknown: Network(v4: 0)
        }
    }

    /// The address without port, IPv4 as an IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2). `nil` for an unknown family.
    package var bits: UInt128? {
        switch kind {
        case .v4(let address, _): 0xFFFF << 32 | UInt128(address)
        case .v6(let high, let low, _): UInt128(high) << 64 | UInt128(low)
        case .unknown: nil
        }
    }

    /// Whether this is an IPv6 address.
    package var isV6: Bool {
        if case .v6 = kind { true } else { false }
    }

    /// This address with another port.
    package func with(port: UInt16) -> SocketAddress {
        switch kind {
        case .v4(let address, _): SocketAddress(kind: .v4(address, port: port))
        case .v6(let high, let low, _): SocketAddress(kind: .v6(high, low, port: port))
        case .unknown: self
        }
    }

    private init(kind: Kind) {
        self.kind = kind
    }

    /// Calls `body` with the address in the kernel's form.
    func withKernelForm<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        var storage = sockaddr_storage()
        let length = withUnsafeMutableBytes(of: &storage) { bytes -> Int in
            switch kind {
            case .v4(let address, let port):
                var form = sockaddr_in()
                form.sin_family = sa_family_t(AF_INET)
                form.sin_port = port.bigEndian
                form.sin_addr.s_addr = address.bigEndian
                bytes.storeBytes(of: form, as: sockaddr_in.self)
                return MemoryLayout<sockaddr_in>.size
            case .v6(let high, let low, let port):
                var form = sockaddr_in6()
                form.sin6_family = sa_family_t(AF_INET6)
                form.sin6_port = port.bigEndian
                bytes.storeBytes(of: form, as: sockaddr_in6.self)
                // The address follows the family, port and flow information.
                bytes.storeBytes(of: high.bigEndian, toByteOffset: 8, as: UInt64.self)
                bytes.storeBytes(of: low.bigEndian, toByteOffset: 16, as: UInt64.self)
                return MemoryLayout<sockaddr_in6>.size
            case .unknown:
                return MemoryLayout<sa_family_t>.size
            }
        }
        return withUnsafePointer(to: storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(length)) }
        }
    }

    /// The port, or 0 if it is unknown.
    package var port: Int {
        switch kind {
        case .v4(_, let port), .v6(_, _, let port): Int(port)
        case .unknown: 0
        }
    }

    /// The address without its port: `203.0.113.7`, `2001:db8:0:0:0:0:0:1`.
    package var host: String {
        switch kind {
        case .v4(let address, _):
            [24, 16, 8, 0].map { String(address >> UInt32($0) & 0xFF) }.joined(separator: ".")
        case .v6(let high, let low, _):
            [high, low].flatMap { half in [48, 32, 16, 0].map { String(half >> UInt64($0) & 0xFFFF, radix: 16) } }
                .joined(separator: ":")
        case .unknown:
            "unknown"
        }
    }

    package var description: String {
        switch kind {
        case .v6: "[\(host)]:\(port)"
        case .v4, .unknown: "\(host):\(port)"
        }
    }
}
