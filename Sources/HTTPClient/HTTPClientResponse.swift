package import HTTPTypes

/// A response, whole.
package struct HTTPClientResponse: Sendable {
    /// The status code, 200 to 999. A redirect is a response like any other: it is not followed.
    package var status: Int
    /// The lines of the head as they came, without the status line; most callers want the body alone.
    let head: [UInt8]
    /// The body as it was sent: chunks are put together, compression is left as it is.
    package var body: [UInt8]

    /// The fields of the head; what follows a chunked body is left out.
    package var headerFields: HTTPFields {
        var fields = HTTPFields()
        for line in head.split(separator: UInt8(ascii: "\n")) {
            let text = Self.trimmed(line)
            guard let colon = text.firstIndex(of: UInt8(ascii: ":")),
                let name = HTTPField.Name(String(decoding: text[..<colon], as: UTF8.self))
            else { continue }
            let value = String(decoding: Self.trimmed(text[(colon + 1)...]), as: UTF8.self)
            fields.append(HTTPField(name: name, value: value))
        }
        return fields
    }

    /// Without white space and line ends at either end.
    private static func trimmed(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
        guard let first = text.firstIndex(where: { !isSpace($0) }), let last = text.lastIndex(where: { !isSpace($0) })
        else { return [] }
        return text[first...last]
    }
}
