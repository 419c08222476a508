package import Net

/// An address, or all addresses with a common prefix: `192.0.2.1`, `10.0.0.0/8`, `2001:db8::/32` (RFC 4632 §3.1, RFC
/// 4291 §2.3).
package struct AddressBlock: Sendable, Hashable {
    private let prefix: UInt128
    /// The bits of the prefix.
    private let mask: UInt128

    /// Parses a block. Returns `nil` for invalid text. Bits beyond the prefix are ignored.
    package init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = SocketAddress(parts[0]), let bits = address.bits else { return nil }
        // An IPv4 address is the last 32 bits of its IPv4-mapped IPv6 address.
        let width = parts[0].contains(":") ? 128 : 32
        var length = width
        if parts.count == 2 {
            guard let number = Self.number(parts[1]), number <= width else { return nil }
            length = number
        }
        mask = .max << (width - length)
        prefix = bits & mask
    }

    package func contains(_ address: SocketAddress) -> Bool {
        address.bits.map { $0 & mask == prefix } ?? false
    }

    /// Parses one to three digits.
    private static func number(_ text: some StringProtocol) -> Int? {
        guard (1...3).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return text.utf8.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }
}
