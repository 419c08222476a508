package import HTTPTypes

/// A complete response.
package struct HTTPClientResponse: Sendable {
    /// The status code, 200 to 999. Redirects are returned, not followed.
    package var status: Int
    /// The header lines as received, without the status line. They are parsed on demand, since most callers need only
    /// the body.
    let head: [UInt8]
    /// The body as sent: chunks are joined, compression is not decoded.
    package var body: [UInt8]

    /// The header fields. Trailer fields are not included.
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

    /// Returns the text without leading and trailing white space and line ends.
    private static func trimmed(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
        guard let first = text.firstIndex(where: { !isSpace($0) }), let last = text.lastIndex(where: { !isSpace($0) })
        else { return [] }
        return text[first...last]
    }
}
