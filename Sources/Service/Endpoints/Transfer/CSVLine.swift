/// The writing of CSV (RFC 4180).
package enum CSVLine {
    private static let quote = UInt8(ascii: "\"")
    private static let comma = UInt8(ascii: ",")

    /// Appends a line with these fields.
    package static func write(_ fields: [String], to bytes: inout [UInt8]) {
        for (index, field) in fields.enumerated() {
            if index > 0 { bytes.append(comma) }
            guard field.utf8.contains(where: { $0 == quote || $0 == comma || $0 <= UInt8(ascii: " ") }) else {
                bytes += field.utf8
                continue
            }
            bytes.append(quote)
            for octet in field.utf8 {
                if octet == quote { bytes.append(quote) }
                bytes.append(octet)
            }
            bytes.append(quote)
        }
        bytes += [UInt8(ascii: "\r"), UInt8(ascii: "\n")]
    }

    /// Returns a text that no spreadsheet takes for a formula: an apostrophe precedes one that begins like a formula
    /// (OWASP, "CSV Injection").
    package static func withoutFormula(_ text: String) -> String {
        guard let first = text.utf8.first, "=+-@\t\r\n".utf8.contains(first) else { return text }
        return "'" + text
    }
}
