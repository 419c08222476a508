import Glibc

/// The characters of HTTP and the scanning functions that all of `Wire` uses.
///
/// Swift checks the subscripts of an `UnsafeRawBufferPointer` in debug builds only: each function here, and each parser,
/// bounds its indices itself.
package enum Octets {
    static let tab: UInt8 = 0x09
    static let lineFeed: UInt8 = 0x0A
    static let carriageReturn: UInt8 = 0x0D
    static let space: UInt8 = 0x20
    static let colon: UInt8 = 0x3A

    /// `tchar`: letters, digits and ``!#$%&'*+-.^_`|~`` (RFC 9110 §5.6.2), as one bit for each of the 128 ASCII characters.
    private static let tokenLow: UInt64 = 0x03FF_6CFA_0000_0000
    private static let tokenHigh: UInt64 = 0x57FF_FFFF_C7FF_FFFE

    /// `reg-name`: letters, digits and ``!$%&'()*+,-.;=_~`` (RFC 3986 §3.2.2), as one bit for each of the 128 ASCII characters.
    private static let nameLow: UInt64 = 0x2BFF_7FF2_0000_0000
    private static let nameHigh: UInt64 = 0x47FF_FFFE_87FF_FFFE

    @inline(__always)
    static func isToken(_ octet: UInt8) -> Bool { contains(tokenLow, tokenHigh, octet) }

    @inline(__always)
    static func isRegName(_ octet: UInt8) -> Bool { contains(nameLow, nameHigh, octet) }

    @inline(__always)
    private static func contains(_ low: UInt64, _ high: UInt64, _ octet: UInt8) -> Bool {
        guard octet < 128 else { return false }
        return (octet < 64 ? low : high) >> UInt64(octet & 63) & 1 == 1
    }

    /// Whether the octet is allowed in a field value: visible characters, `obs-text`, space and tab (RFC 9110 §5.5).
    /// CR, LF and NUL are not.
    @inline(__always)
    static func isFieldContent(_ octet: UInt8) -> Bool {
        octet >= 0x20 && octet != 0x7F || octet == tab
    }

    /// Returns the value of a decimal digit, or `nil`.
    @inline(__always)
    static func digit(_ octet: UInt8) -> Int? {
        octet &- 0x30 < 10 ? Int(octet &- 0x30) : nil
    }

    /// Returns the value of a hexadecimal digit, or `nil`.
    package static func hexDigit(_ octet: UInt8) -> Int? {
        if let digit = digit(octet) { return digit }
        let lower = octet | 0x20
        return lower &- 0x61 < 6 ? Int(lower &- 0x61) + 10 : nil
    }
}

extension UnsafeRawBufferPointer {
    /// Returns the first index of `octet` at or after `start`, or `nil`. `start` must be from 0 to `count`.
    @inline(__always)
    func firstIndex(of octet: UInt8, from start: Int) -> Int? {
        precondition(start >= 0 && start <= count)
        guard let base = baseAddress, let found = memchr(base + start, Int32(octet), count - start) else { return nil }
        return UnsafeRawPointer(found) - base
    }

    /// Returns whether the bytes in `range` equal `name`, ignoring case. `name` must be lower case, and `range` must
    /// contain a token.
    @inline(__always)
    func matches(_ name: StaticString, in range: Range<Int>) -> Bool {
        guard range.count == name.utf8CodeUnitCount else { return false }
        precondition(range.lowerBound >= 0 && range.upperBound <= count)
        let expected = name.utf8Start
        for offset in 0..<range.count where self[range.lowerBound + offset] | 0x20 != expected[offset] { return false }
        return true
    }

    /// Returns whether the bytes at `start` equal `text`, including case.
    @inline(__always)
    func equals(_ text: StaticString, at start: Int) -> Bool {
        guard let base = baseAddress, start >= 0, count - start >= text.utf8CodeUnitCount else { return false }
        return memcmp(base + start, text.utf8Start, text.utf8CodeUnitCount) == 0
    }

    /// Returns `range` without leading and trailing spaces and tabs.
    func trimmed(_ range: Range<Int>) -> Range<Int> {
        var (lower, upper) = (range.lowerBound, range.upperBound)
        while lower < upper, self[lower] == Octets.space || self[lower] == Octets.tab { lower += 1 }
        while upper > lower, self[upper - 1] == Octets.space || self[upper - 1] == Octets.tab { upper -= 1 }
        return lower..<upper
    }

    /// Returns the decimal number in `range`: digits only, without sign, spaces or overflow; otherwise `nil`.
    ///
    /// Swift's `Int("+5")` is 5. Requests can be smuggled if two parsers understand a length differently.
    func decimal(in range: Range<Int>) -> Int? {
        guard !range.isEmpty else { return nil }
        var value = 0
        for index in range {
            guard let digit = Octets.digit(self[index]) else { return nil }
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, carry) = product.addingReportingOverflow(digit)
            guard !overflow, !carry else { return nil }
            value = sum
        }
        return value
    }
}

extension Substring {
    package func trimmingSpaces() -> Substring {
        var text = self
        while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }
}
