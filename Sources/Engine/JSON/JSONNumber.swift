/// A JSON number that keeps its text.
///
/// The text never passes through `Double`: 2^63-1 stays exact, and `1.0` or `1E400` is written as it was read. Numbers
/// are therefore equal if their texts are equal.
package struct JSONNumber: Equatable, Sendable {
    /// The text of the number in the grammar of RFC 8259 §6.
    package let text: String

    /// Creates a number from a text that is known to follow the grammar.
    init(verified text: String) {
        self.text = text
    }

    /// Creates a number from a text in the grammar of RFC 8259 §6, or returns `nil` if the text is invalid.
    package init?(_ text: String) {
        var text = text
        let isNumber = text.withUTF8 { JSONScanner.isNumber(UnsafeRawBufferPointer($0)) }
        guard isNumber else { return nil }
        self.text = text
    }

    package init(_ value: some FixedWidthInteger) {
        text = String(value)
    }

    /// Creates a number from a computed rate or ratio. Returns `nil` for infinity and NaN, which JSON cannot represent.
    package init?(_ value: Double) {
        guard value.isFinite else { return nil }
        text = value.description
    }

    /// The nearest `Double`; infinity if the number is too large.
    package var double: Double? { Double(text) }

    /// The integer, if the number has neither fraction nor exponent (not `1.0` or `1e3`) and fits. `-0` is 0.
    package var int64: Int64? {
        var digits = text.utf8[...]
        let isNegative = digits.first == UInt8(ascii: "-")
        if isNegative { digits.removeFirst() }
        guard !digits.isEmpty else { return nil }
        // Accumulated as a negative number, because the range of Int64 is larger by one below zero.
        var negated: Int64 = 0
        for byte in digits {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            let (tens, overflowed) = negated.multipliedReportingOverflow(by: 10)
            let (next, underflowed) = tens.subtractingReportingOverflow(Int64(byte - UInt8(ascii: "0")))
            guard !overflowed, !underflowed else { return nil }
            negated = next
        }
        guard !isNegative else { return negated }
        return negated == .min ? nil : -negated
    }
}
