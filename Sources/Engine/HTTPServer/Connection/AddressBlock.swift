import Net

/// An address, or all addresses with a common prefix: `192.0.2.1`, `10.0.0.0/8`, `2001:db8::/32` (RFC 4632 §3.1, RFC
/// 4291 §2.3).
struct AddressBlock: Sendable, Equatable {
    private let high: UInt64
    private let low: UInt64
    /// The bits of the prefix.
    private let highMask: UInt64
    private let lowMask: UInt64

    /// Parses a block. Returns `nil` for invalid text. Bits beyond the prefix are ignored.
    init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = SocketAddress(parts[0]), let bits = address.bits else { return nil }
        // An IPv4 address is the last 32 bits of its IPv4-mapped IPv6 address.
        let width = parts[0].contains(":") ? 128 : 32
        var length = 128
        if parts.count == 2 {
            guard let prefix = Self.number(parts[1]), prefix <= width else { return nil }
            length = 128 - width + prefix
        }
        highMask = Self.mask(length)
        lowMask = Self.mask(length - 64)
        high = bits.high & highMask
        low = bits.low & lowMask
    }

    func contains(_ address: SocketAddress) -> Bool {
        guard let bits = address.bits else { return false }
        return bits.high & highMask == high && bits.low & lowMask == low
    }

    /// Returns a mask of the first `length` of 64 bits.
    private static func mask(_ length: Int) -> UInt64 {
        length <= 0 ? 0 : UInt64.max << UInt64(max(0, 64 - length))
    }

    /// Parses one to three digits.
    private static func number(_ text: some StringProtocol) -> Int? {
        guard (1...3).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return text.utf8.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }
}
