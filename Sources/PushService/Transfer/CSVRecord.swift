/// One line of CSV (RFC 4180).
///
/// A field that goes on over a line's end is not read: no field here may hold one.
enum CSVRecord {
    private static let quote = UInt8(ascii: "\"")
    private static let comma = UInt8(ascii: ",")

    /// The fields of a line, which is without its line's end.
    ///
    /// - Throws: ``LineFault`` for a quote in the wrong place, and for a field that is not UTF-8.
    static func fields(of line: ArraySlice<UInt8>) throws(LineFault) -> [String] {
        var fields: [String] = []
        var rest = line
        while true {
            let field: [UInt8]
            if rest.first == quote {
                field = try quoted(&rest)
            } else {
                let plain = rest.prefix { $0 != comma }
                guard !plain.contains(quote) else { throw LineFault("a field with quotes must be in quotes") }
                field = Array(plain)
                rest = rest[plain.endIndex...]
            }
            guard let text = String(validating: field, as: UTF8.self) else { throw LineFault("it must be UTF-8") }
            fields.append(text)
            guard let next = rest.popFirst() else { return fields }
            guard next == comma else { throw LineFault("after a field in quotes must be a comma or the line's end") }
        }
    }

    /// Takes a field in quotes, of which two stand for one inside.
    private static func quoted(_ rest: inout ArraySlice<UInt8>) throws(LineFault) -> [UInt8] {
        var field: [UInt8] = []
        rest.removeFirst()
        while true {
            let run = rest.prefix { $0 != quote }
            field += run
            rest = rest[run.endIndex...]
            guard rest.popFirst() != nil else { throw LineFault("a field in quotes must end on its line") }
            guard rest.first == quote else { return field }
            field.append(quote)
            rest.removeFirst()
        }
    }

    /// Appends a line that reads back as these fields.
    static func write(_ fields: [String], to bytes: inout [UInt8]) {
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
}
