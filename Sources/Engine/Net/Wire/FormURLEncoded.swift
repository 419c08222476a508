/// A parser for `application/x-www-form-urlencoded`, the format of forms and queries (WHATWG URL §5.1).
package enum FormURLEncoded {
    /// The reason why a form is invalid.
    package struct ParseError: Error, Equatable, Sendable {
        /// A description of the error and its place, for the client's developer.
        package let message: String
    }

    /// The media type of forms.
    package static let mediaType = "application/x-www-form-urlencoded"

    /// The maximum number of pairs. No legitimate client sends more, and they would cost memory.
    package static let maximumPairs = 1000

    /// Returns the names and values in order. A name may occur more than once.
    ///
    /// - Throws: ``ParseError`` for a `%` without two hexadecimal digits, invalid UTF-8, or too many pairs.
    package static func parse(_ bytes: ArraySlice<UInt8>) throws(ParseError) -> [(name: String, value: String)] {
        var pairs: [(name: String, value: String)] = []
        var rest = bytes
        while !rest.isEmpty {
            let end = rest.firstIndex(of: UInt8(ascii: "&")) ?? rest.endIndex
            let pair = rest[..<end]
            rest = rest[min(end + 1, rest.endIndex)...]
            guard !pair.isEmpty else { continue }
            guard pairs.count < maximumPairs else {
                throw ParseError(message: "There are more than \(maximumPairs) pairs.")
            }
            pairs.append(try decoded(pair))
        }
        return pairs
    }

    /// Returns the names and values that can be decoded, in order, and whether these are all.
    package static func parseLeniently(
        _ bytes: ArraySlice<UInt8>
    ) -> (pairs: [(name: String, value: String)], isAll: Bool) {
        if let pairs = try? parse(bytes) { return (pairs, true) }
        let pieces = bytes.split(separator: UInt8(ascii: "&"), maxSplits: maximumPairs)
        return (pieces.prefix(maximumPairs).compactMap { try? decoded($0) }, false)
    }

    private static func decoded(_ pair: ArraySlice<UInt8>) throws(ParseError) -> (name: String, value: String) {
        let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.endIndex
        let name = try percentDecoded(pair[..<equals], plusIsSpace: true)
        let value = try percentDecoded(pair[min(equals + 1, pair.endIndex)...], plusIsSpace: true)
        return (name, value)
    }

    /// Decodes the percent-encoding of one name, value or path segment (RFC 3986 §2.1).
    ///
    /// - Parameter plusIsSpace: Whether `+` means a space, as in forms. In a path it does not.
    package static func percentDecoded(_ bytes: ArraySlice<UInt8>, plusIsSpace: Bool) throws(ParseError) -> String {
        // Most texts contain nothing to decode.
        let isPlain = bytes.allSatisfy { $0 < 0x80 && $0 != UInt8(ascii: "%") && $0 != UInt8(ascii: "+") }
        if isPlain { return String(decoding: bytes, as: UTF8.self) }
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var index = bytes.startIndex
        while index < bytes.endIndex {
            let octet = bytes[index]
            if octet == UInt8(ascii: "%") {
                guard index + 2 < bytes.endIndex, let high = Octets.hexDigit(bytes[index + 1]),
                    let low = Octets.hexDigit(bytes[index + 2])
                else { throw ParseError(message: "A % is not followed by two hexadecimal digits.") }
                decoded.append(UInt8(high << 4 | low))
                index += 3
            } else {
                decoded.append(plusIsSpace && octet == UInt8(ascii: "+") ? Octets.space : octet)
                index += 1
            }
        }
        guard let text = String(validating: decoded, as: UTF8.self) else {
            throw ParseError(message: "The bytes are invalid UTF-8.")
        }
        return text
    }
}
