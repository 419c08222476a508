/// A number as it was written.
///
/// The text is kept and never passes through `Double`: 2^63-1 stays what it is, and a `1.0` or `1E400` leaves as it came.
/// Numbers are therefore equal when their texts are.
package struct JSONNumber: Equatable, Sendable {
    /// The number in the grammar of RFC 8259 §6.
    package let text: String

    /// A text that is known to follow the grammar.
    init(verified text: String) {
        self.text = text
    }

    /// A number in the grammar of RFC 8259 §6, or `nil` if `text` is none.
    package init?(_ text: String) {
        var text = text
        let isNumber = text.withUTF8 { JSONScanner.isNumber(UnsafeRawBufferPointer($0)) }
        guard isNumber else { return nil }
        self.text = text
    }

    package init(_ value: some FixedWidthInteger) {
        text = String(value)
    }

    /// A rate or ratio of our own making; `nil` for infinity and NaN, which JSON cannot say.
    package init?(_ value: Double) {
        guard value.isFinite else { return nil }
        text = value.description
    }

    /// The integer, if the number is written as one (no fraction, no exponent: neither `1.0` nor `1e3`) and fits. `-0` is 0.
    package var int64: Int64? {
        var digits = text.utf8[...]
        let isNegative = digits.first == UInt8(ascii: "-")
        if isNegative { digits.removeFirst() }
        guard !digits.isEmpty else { return nil }
        // Counted downward, because Int64 reaches one further below zero than above.
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
