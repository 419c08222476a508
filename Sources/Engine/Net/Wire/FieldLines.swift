package import HTTPTypes

/// The field lines of a head, stored as received (RFC 9112 §5).
///
/// A field becomes a `String` only on access, because most fields are never read.
package struct FieldLines: Sendable {
    /// The head, up to and including the empty line.
    private let bytes: [UInt8]
    /// The start of the first field line.
    private let start: Int

    /// Creates the field lines of a head that a parser has read.
    package init(of head: [UInt8], from start: Int) {
        bytes = head
        self.start = start
    }

    /// The value of a field, or `nil`. Several fields with this name are joined with commas (RFC 9110 §5.3).
    package subscript(name: HTTPField.Name) -> String? {
        var result: String?
        forEach { bytes, nameRange, valueRange in
            guard bytes.equals(name.canonicalName, in: nameRange) else { return }
            let value = String(decoding: bytes[valueRange], as: UTF8.self)
            result = result.map { "\($0), \(value)" } ?? value
        }
        return result
    }

    /// All fields, for callers that need more than one or two.
    package var all: HTTPFields {
        var fields = HTTPFields()
        forEach { bytes, nameRange, valueRange in
            guard let name = HTTPField.Name(String(decoding: bytes[nameRange], as: UTF8.self)) else { return }
            fields.append(HTTPField(name: name, value: String(decoding: bytes[valueRange], as: UTF8.self)))
        }
        return fields
    }

    private func forEach(_ body: (UnsafeRawBufferPointer, Range<Int>, Range<Int>) -> Void) {
        bytes.withUnsafeBytes { bytes in
            bytes.forEachFieldLine(from: start) { name, value in
                if let name { body(bytes, name, value) }
            }
        }
    }
}

extension UnsafeRawBufferPointer {
    /// Calls `body` with the name and the trimmed value of each field line of a head whose field lines begin at `start`,
    /// up to the empty line. The name is `nil`, and the value is the whole line, if the line is not a token followed by a
    /// colon.
    @inline(__always)
    func forEachFieldLine<Failure: Error>(
        from start: Int,
        _ body: (_ name: Range<Int>?, _ value: Range<Int>) throws(Failure) -> Void
    ) throws(Failure) {
        var lineStart = start
        while let lineFeed = firstIndex(of: Octets.lineFeed, from: lineStart) {
            let end = lineFeed > lineStart && self[lineFeed - 1] == Octets.carriageReturn ? lineFeed - 1 : lineFeed
            guard end > lineStart else { return }
            var nameEnd = lineStart
            while Octets.isToken(self[nameEnd]) { nameEnd += 1 }
            if nameEnd > lineStart, self[nameEnd] == Octets.colon {
                try body(lineStart..<nameEnd, trimmed(nameEnd + 1..<end))
            } else {
                try body(nil, lineStart..<end)
            }
            lineStart = lineFeed + 1
        }
    }

    /// Calls `body` with each member of a comma-separated list (RFC 9110 §5.6.1), trimmed.
    func forEachListMember(_ list: Range<Int>, _ body: (Range<Int>) -> Void) {
        var start = list.lowerBound
        while start < list.upperBound {
            let comma = firstIndex(of: UInt8(ascii: ","), from: start) ?? list.upperBound
            let end = Swift.min(comma, list.upperBound)
            body(trimmed(start..<end))
            start = end + 1
        }
    }

    /// Returns whether the token in `range` equals `name`, which is lower case.
    fileprivate func equals(_ name: String, in range: Range<Int>) -> Bool {
        guard name.utf8.count == range.count else { return false }
        var index = range.lowerBound
        for octet in name.utf8 {
            guard self[index] | 0x20 == octet | 0x20 else { return false }
            index += 1
        }
        return true
    }
}
