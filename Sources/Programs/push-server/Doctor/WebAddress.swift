import FoundationEssentials
import Net

/// The host of a URL, and whether other machines can reach it.
struct WebAddress {
    let isHTTPS: Bool
    /// A name in lowercase, or a numeric address without brackets; empty for a URL without a host.
    let host: String

    init(_ url: String) {
        let parts = URL(string: url)
        isHTTPS = parts?.scheme?.lowercased() == "https"
        host = (parts?.host() ?? "").lowercased().filter { $0 != "[" && $0 != "]" }
    }

    /// Domains that public DNS does not resolve (RFC 6761, RFC 6762, RFC 8375, and ICANN's `internal`).
    private static let privateDomains = [
        "localhost", "local", "internal", "lan", "home", "corp", "intranet", "home.arpa", "test", "example", "invalid",
    ]

    /// Whether the host is this machine.
    var isLoopback: Bool {
        host == "localhost" || host == "::1" || host.hasPrefix("127.")
    }

    /// Whether the host is a name that resolves only within a private network.
    var isPrivateName: Bool {
        !Self.isNumeric(host)
            && (!host.contains(".") || Self.privateDomains.contains { host == $0 || host.hasSuffix(".\($0)") })
    }

    /// Whether the host is a private name, or an address that the Internet does not reach.
    var isPrivate: Bool { Self.isNumeric(host) ? !Self.isPublic(host) : isPrivateName }

    // MARK: Numeric addresses

    private static let version4Blocks: [(start: [UInt8], bits: Int)] = [
        ([0], 8), ([10], 8), ([100, 64], 10), ([127], 8), ([169, 254], 16), ([172, 16], 12), ([192, 0, 0], 24),
        ([192, 0, 2], 24), ([192, 168], 16), ([198, 18], 15), ([198, 51, 100], 24), ([203, 0, 113], 24), ([224], 3),
    ]

    static func isNumeric(_ host: String) -> Bool { SocketAddress(host) != nil }

    /// Returns whether a numeric address is reachable from the Internet, which excludes all special-purpose blocks
    /// (IANA, "IPv4 Special-Purpose Address Registry" and "IPv6 Special-Purpose Address Registry").
    static func isPublic(_ address: String) -> Bool {
        guard let bits = SocketAddress(address)?.bits else { return false }
        let octets = withUnsafeBytes(of: bits.bigEndian) { Array($0) }
        // An IPv4 address, which is within an IPv6 prefix: mapped (RFC 4291 §2.5.5.2) or translated (RFC 6052).
        let isMapped = octets.prefix(12) == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]
        let isTranslated = octets.prefix(12) == [0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0]
        if isMapped || isTranslated { return !version4Blocks.contains { isIn($0.start, $0.bits, octets.suffix(4)) } }
        return isIn([0x20], 3, octets) && !isIn([0x20, 0x01, 0x0D, 0xB8], 32, octets)
    }

    /// Returns whether the first `bits` bits of `address` equal those of `start`.
    private static func isIn(_ start: [UInt8], _ bits: Int, _ address: some Collection<UInt8>) -> Bool {
        zip(0..., zip(start, address)).allSatisfy { index, pair in
            let count = min(8, bits - index * 8)
            let mask = UInt8(truncatingIfNeeded: 0xFF00 >> count)
            return pair.0 & mask == pair.1 & mask
        }
    }
}
