/// A scanner of the tokens of RFC 8259. It is the only file of this target that parses through an unsafe pointer.
///
/// Valid only as long as the bytes passed to its initializer. Every read follows a comparison with `end` where the
/// position moves. ``peek`` returns 0 at the end, a byte with which no token begins.
struct JSONScanner {
    private let bytes: UnsafeRawBufferPointer
    private let end: Int
    private var position = 0
    /// A buffer for unescaping strings.
    private var unescaped: [UInt8] = []

    init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
        end = bytes.count
    }

    /// Returns whether `bytes` are one number and nothing else.
    static func isNumber(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var scanner = JSONScanner(bytes)
        return (try? scanner.skipNumber()) != nil && scanner.isAtEnd
    }

    // MARK: Position

    var offset: Int { position }

    var isAtEnd: Bool { position >= end }

    /// The byte at the position, or 0 at the end.
    var peek: UInt8 { position < end ? bytes[position] : 0 }

    /// Skips the byte at the position. The position must not be the end.
    mutating func advance() {
        position += 1
    }

    /// Skips `byte` if it comes next. Returns whether it did.
    mutating func skip(_ byte: UInt8) -> Bool {
        guard position < end, bytes[position] == byte else { return false }
        position += 1
        return true
    }

    mutating func skipWhiteSpace() {
        while position < end {
            switch bytes[position] {
            case 0x20, 0x0A, 0x0D, 0x09: position += 1
            default: return
            }
        }
    }

    func error(_ message: String) -> JSONError {
        JSONError(offset: position, message: message)
    }

    // MARK: Words and numbers

    /// Skips `true`, `false` or `null`.
    mutating func word(_ word: StaticString) throws(JSONError) {
        let length = word.utf8CodeUnitCount
        guard end - position >= length else { throw error("expected a value") }
        for index in 0..<length where bytes[position + index] != word.utf8Start[index] {
            throw error("expected a value")
        }
        position += length
    }

    mutating func number() throws(JSONError) -> JSONNumber {
        let start = position
        try skipNumber()
        return JSONNumber(verified: String(decoding: bytes[start..<position], as: UTF8.self))
    }

    private mutating func skipNumber() throws(JSONError) {
        _ = skip(UInt8(ascii: "-"))
        if skip(UInt8(ascii: "0")) {
            guard !isDigit(peek) else { throw error("leading zero in a number") }
        } else {
            try skipDigits()
        }
        if skip(UInt8(ascii: ".")) { try skipDigits() }
        if skip(UInt8(ascii: "e")) || skip(UInt8(ascii: "E")) {
            if !skip(UInt8(ascii: "+")) { _ = skip(UInt8(ascii: "-")) }
            try skipDigits()
        }
    }

    /// Skips one or more digits.
    private mutating func skipDigits() throws(JSONError) {
        guard isDigit(peek) else { throw error("expected a digit") }
        repeat { position += 1 } while isDigit(peek)
    }

    private func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }

    // MARK: Strings

    /// Parses the string whose opening quote is at the position.
    mutating func string() throws(JSONError) -> String {
        let start = position + 1
        var hasEscapes = false
        position = special(from: start)
        while position < end {
            switch bytes[position] {
            case UInt8(ascii: "\""):
                let content = start..<position
                position += 1
                return try text(in: content, hasEscapes: hasEscapes)
            case UInt8(ascii: "\\"):
                // The next byte belongs to the escape, even if it is a quote. `unescape` validates it.
                hasEscapes = true
                position = special(from: position + 2)
            default:
                throw error("unescaped control character in a string")
            }
        }
        position = end
        throw error("unterminated string")
    }

    /// Returns the string in `content`. Throws for invalid UTF-8: overlong forms, surrogates, or code points above
    /// U+10FFFF.
    private mutating func text(in content: Range<Int>, hasEscapes: Bool) throws(JSONError) -> String {
        do {
            let text = try UTF8Span(validating: bytes.bindMemory(to: UInt8.self).extracting(content).span)
            if !hasEscapes { return String(copying: text) }
        } catch {
            throw JSONError(offset: content.lowerBound + error.byteOffsets.lowerBound, message: "invalid UTF-8")
        }
        return try unescape(content)
    }

    /// Returns the position of the first quote, backslash or control character at or after `start`, or a position at or
    /// beyond the end.
    private func special(from start: Int) -> Int {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let highBits: UInt64 = 0x8080_8080_8080_8080
        var index = start
        // Scans eight bytes at a time. `(x - 1) & ~x` has the high bit of each byte that is zero. Because the
        // subtraction borrows, a byte above a match may be flagged wrongly, but the lowest flag is always right.
        while index + 8 <= end {
            let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            let quotes = word ^ (ones &* UInt64(UInt8(ascii: "\"")))
            let backslashes = word ^ (ones &* UInt64(UInt8(ascii: "\\")))
            let flags =
                ((quotes &- ones) & ~quotes | (backslashes &- ones) & ~backslashes | (word &- ones &* 0x20) & ~word)
                & highBits
            if flags != 0 { return index + flags.trailingZeroBitCount / 8 }
            index += 8
        }
        while index < end {
            let byte = bytes[index]
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") || byte < 0x20 { return index }
            index += 1
        }
        return index
    }

    /// Returns the string in `content` with its escapes decoded. The bytes must be UTF-8, with a byte after each
    /// backslash.
    private mutating func unescape(_ content: Range<Int>) throws(JSONError) -> String {
        unescaped.removeAll(keepingCapacity: true)
        var index = content.lowerBound
        while index < content.upperBound {
            let run = index
            while index < content.upperBound, bytes[index] != UInt8(ascii: "\\") { index += 1 }
            unescaped.append(contentsOf: bytes[run..<index])
            guard index < content.upperBound else { break }
            switch bytes[index + 1] {
            case UInt8(ascii: "u"):
                index = try unescapeUnicode(at: index, end: content.upperBound)
                continue
            case UInt8(ascii: "\""): unescaped.append(UInt8(ascii: "\""))
            case UInt8(ascii: "\\"): unescaped.append(UInt8(ascii: "\\"))
            case UInt8(ascii: "/"): unescaped.append(UInt8(ascii: "/"))
            case UInt8(ascii: "b"): unescaped.append(0x08)
            case UInt8(ascii: "f"): unescaped.append(0x0C)
            case UInt8(ascii: "n"): unescaped.append(0x0A)
            case UInt8(ascii: "r"): unescaped.append(0x0D)
            case UInt8(ascii: "t"): unescaped.append(0x09)
            default: throw JSONError(offset: index, message: "unknown escape sequence")
            }
            index += 2
        }
        return String(decoding: unescaped, as: UTF8.self)
    }

    /// Appends the character of a `\uXXXX` escape or of a surrogate pair of them. Returns the position after it.
    private mutating func unescapeUnicode(at start: Int, end: Int) throws(JSONError) -> Int {
        guard let unit = codeUnit(at: start, end: end) else {
            throw JSONError(offset: start, message: "expected four hexadecimal digits after '\\u'")
        }
        if let scalar = Unicode.Scalar(unit) {
            unescaped.append(contentsOf: scalar.utf8)
            return start + 6
        }
        guard UTF16.isLeadSurrogate(unit), let trail = codeUnit(at: start + 6, end: end), UTF16.isTrailSurrogate(trail),
            let scalar = Unicode.Scalar(0x1_0000 + (UInt32(unit) & 0x3FF) << 10 + (UInt32(trail) & 0x3FF))
        else {
            throw JSONError(offset: start, message: "unpaired surrogate")
        }
        unescaped.append(contentsOf: scalar.utf8)
        return start + 12
    }

    /// Returns the UTF-16 code unit of the `\uXXXX` escape at `index`, or `nil` if there is none before `end`.
    private func codeUnit(at index: Int, end: Int) -> UInt16? {
        guard end - index >= 6, bytes[index] == UInt8(ascii: "\\"), bytes[index + 1] == UInt8(ascii: "u") else {
            return nil
        }
        var unit: UInt16 = 0
        for byte in bytes[index + 2..<index + 6] {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): unit = unit << 4 | UInt16(byte - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): unit = unit << 4 | UInt16(byte - UInt8(ascii: "a") + 10)
            case UInt8(ascii: "A")...UInt8(ascii: "F"): unit = unit << 4 | UInt16(byte - UInt8(ascii: "A") + 10)
            default: return nil
            }
        }
        return unit
    }
}
