/// A line of CSV (RFC 4180).
///
/// A field with a line break is not supported: no field of a device may contain one.
enum CSVRecord {
    private static let quote = UInt8(ascii: "\"")
    private static let comma = UInt8(ascii: ",")

    /// Returns the fields of a line.
    ///
    /// - Parameter line: The line without its line end.
    /// - Throws: ``LineFault`` for a misplaced quote, and for a field with invalid UTF-8.
    static func fields(of line: ArraySlice<UInt8>) throws(LineFault) -> [String] {
        var fields: [String] = []
        var rest = line
        while true {
            let field: [UInt8]
            if rest.first == quote {
                field = try quoted(&rest)
            } else {
                let plain = rest.prefix { $0 != comma }
                guard !plain.contains(quote) else { throw LineFault("a field that contains a quote must be quoted") }
                field = Array(plain)
                rest = rest[plain.endIndex...]
            }
            guard let text = String(validating: field, as: UTF8.self) else { throw LineFault("invalid UTF-8") }
            fields.append(text)
            guard let next = rest.popFirst() else { return fields }
            guard next == comma else { throw LineFault("a quoted field must be followed by a comma or the line's end") }
        }
    }

    /// Parses a quoted field, in which two quotes represent one.
    private static func quoted(_ rest: inout ArraySlice<UInt8>) throws(LineFault) -> [UInt8] {
        var field: [UInt8] = []
        rest.removeFirst()
        while true {
            let run = rest.prefix { $0 != quote }
            field += run
            rest = rest[run.endIndex...]
            guard rest.popFirst() != nil else { throw LineFault("a quoted field must end on its line") }
            guard rest.first == quote else { return field }
            field.append(quote)
            rest.removeFirst()
        }
    }
}
