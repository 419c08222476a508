package import JSON

/// The rules for texts in requests.
package enum Text {
    /// The regular expression of texts without control characters.
    package static let pattern = "^[^\\u0000-\\u001f\\u007f]*$"

    /// Returns whether `text` has `length` characters and no control characters.
    package static func isValid(_ text: String, _ length: ClosedRange<Int>) -> Bool {
        // The length in bytes is bounded first, since counting characters takes linear time.
        guard text.utf8.count <= length.upperBound * 4 else { return false }
        // Characters are Unicode scalars, as PostgreSQL and Kakao's Java count them: the bytes that are not
        // continuation bytes.
        var text = text
        return text.withUTF8 { bytes in
            var count = 0
            for byte in bytes {
                guard byte >= 0x20 && byte != 0x7F else { return false }
                if byte & 0xC0 != 0x80 { count += 1 }
            }
            return length.contains(count)
        }
    }

    /// Returns the description of a text that ``isValid(_:_:)`` accepts, in words that follow "must be".
    package static func allowed(_ length: ClosedRange<Int>) -> String {
        "a text of \(length.lowerBound) to \(length.upperBound) characters, without control characters"
    }

    /// Returns the texts in an array, or `nil` if one is invalid or if there are too few or too many.
    package static func all(in value: JSONValue, count: ClosedRange<Int>, length: ClosedRange<Int>) -> [String]? {
        guard let elements = value.array, count.contains(elements.count) else { return nil }
        let texts = elements.compactMap(\.string).filter { isValid($0, length) }
        return texts.count == elements.count ? texts : nil
    }
}

extension Int64 {
    /// Parses a decimal number. A leading minus is allowed; a plus, leading zeros and other characters are not.
    package init?(decimal text: String) {
        let digits = text.utf8.first == UInt8(ascii: "-") ? text.utf8.dropFirst() : text.utf8[...]
        guard let first = digits.first, first != 0x30 || text == "0", digits.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 })
        else {
            return nil
        }
        self.init(text)
    }
}
