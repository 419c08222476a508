/// Reads user ids, one a line, from pieces that may be cut anywhere.
///
/// A line is an integer from 1 to 2^63-1 in decimal, without a sign, a space or a leading zero. It ends with LF or CR LF; the last one
/// may also end with the text. An empty line counts as a line and is passed over. Pure.
package struct UserIDLines {
    /// What stands of the line so far.
    private enum State {
        /// Digits or nothing. Can transition to `afterCarriageReturn`, `bad`.
        case number
        /// Now it has to end. Can transition to `number`, `bad`.
        case afterCarriageReturn
        /// Passed over to its end. Can transition to `number`.
        case bad
    }

    package static let allowed = "an integer from 1 to 9223372036854775807, without sign, spaces and leading zeros"
    /// Bad lines that are looked for: enough to see what is wrong with a file.
    private static let maximumBadLines = 10
    /// Bytes after the first bad line in which others are looked for.
    private static let maximumBytesAfterBadLine = 1 << 20
    /// So many fit into 64 bits, whatever they are; 2^63-1 has as many.
    private static let maximumDigits = 19

    /// The numbers of the first bad lines, counted from 1.
    package private(set) var badLines: [Int] = []
    private var line = 1
    private var state = State.number
    private var value: UInt64 = 0
    private var digits = 0
    private var bytesAfterBadLine = 0

    /// There are bad lines, and it is not worth looking for more.
    var isHopeless: Bool {
        badLines.count == Self.maximumBadLines || bytesAfterBadLine > Self.maximumBytesAfterBadLine
    }

    package init() {}

    /// Reads a piece and calls `body` with each user id that ends in it.
    package mutating func read(_ piece: [UInt8], _ body: (Int64) -> Void) {
        if !badLines.isEmpty { bytesAfterBadLine += piece.count }
        for octet in piece {
            switch (state, octet) {
            case (.number, UInt8(ascii: "0")...UInt8(ascii: "9")): take(octet & 0xF)
            case (_, UInt8(ascii: "\n")): endLine(body)
            case (.number, UInt8(ascii: "\r")): state = .afterCarriageReturn
            case (.bad, _): break
            case (.number, _), (.afterCarriageReturn, _): refuse()
            }
        }
    }

    /// There is no further piece.
    package mutating func end(_ body: (Int64) -> Void) {
        switch state {
        case .number, .bad: endLine(body)
        case .afterCarriageReturn: refuse()
        }
    }

    private mutating func take(_ digit: UInt8) {
        guard digits < Self.maximumDigits, digit > 0 || digits > 0 else { return refuse() }
        value = value * 10 + UInt64(digit)
        digits += 1
    }

    private mutating func endLine(_ body: (Int64) -> Void) {
        if state != .bad, digits > 0 {
            if let id = Int64(exactly: value) { body(id) } else { refuse() }
        }
        state = .number
        value = 0
        digits = 0
        line += 1
    }

    private mutating func refuse() {
        state = .bad
        if badLines.count < Self.maximumBadLines { badLines.append(line) }
    }
}
