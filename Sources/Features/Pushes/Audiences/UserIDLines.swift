/// A parser of user ids, one a line, from pieces that may be cut anywhere.
///
/// A line is an integer from 1 to 2^63-1 in decimal, without a sign, a space or a leading zero. It ends with LF or CR
/// LF; the last one may also end with the text. An empty line is counted and skipped, and so is a byte order mark
/// at the beginning, which spreadsheets write. Pure.
package struct UserIDLines {
    /// The state of the current line.
    private enum State: Equatable {
        /// The text has begun with this many bytes of a byte order mark, and has no others yet. Can transition to `number`, `bad`.
        case beginning(Int)
        /// The line has only digits so far, or is empty. Can transition to `afterCarriageReturn`, `bad`.
        case number
        /// The line has to end now. Can transition to `number`, `bad`.
        case afterCarriageReturn
        /// The line is invalid, and skipped to its end. Can transition to `number`.
        case bad
    }

    package static let allowed = "an integer from 1 to 9223372036854775807, without a sign, spaces or leading zeros"
    /// The maximum number of bad lines to report: enough to see the fault of a file.
    private static let maximumBadLines = 10
    /// The number of bytes after the first bad line in which more bad lines are searched for.
    private static let maximumBytesAfterBadLine = 1 << 20
    /// The number of digits of 2^63-1. Any number with as many digits fits into 64 bits.
    private static let maximumDigits = 19

    /// U+FEFF in UTF-8.
    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    /// The numbers of the first bad lines, counted from 1.
    package private(set) var badLines: [Int] = []
    private var line = 1
    private var state = State.beginning(0)
    private var value: UInt64 = 0
    private var digits = 0
    private var bytesAfterBadLine = 0

    /// Whether there are bad lines and the search for more has ended.
    var isHopeless: Bool {
        badLines.count == Self.maximumBadLines || bytesAfterBadLine > Self.maximumBytesAfterBadLine
    }

    package init() {}

    /// Parses a piece and calls `body` with each user id whose line ends in it.
    package mutating func read(_ piece: [UInt8], _ body: (Int64) -> Void) {
        if !badLines.isEmpty { bytesAfterBadLine += piece.count }
        for octet in piece {
            if case .beginning(let count) = state, continuesMark(octet, after: count) { continue }
            switch (state, octet) {
            case (.number, UInt8(ascii: "0")...UInt8(ascii: "9")): append(octet & 0xF)
            case (_, UInt8(ascii: "\n")): endLine(body)
            case (.number, UInt8(ascii: "\r")): state = .afterCarriageReturn
            case (.bad, _), (.beginning, _): break
            case (.number, _), (.afterCarriageReturn, _): refuse()
            }
        }
    }

    /// Parses the end of the text.
    package mutating func end(_ body: (Int64) -> Void) {
        switch state {
        case .number, .bad, .beginning(0): endLine(body)
        case .afterCarriageReturn, .beginning: refuse()
        }
    }

    /// Returns whether an octet belongs to a byte order mark. If not, the first line begins with it.
    private mutating func continuesMark(_ octet: UInt8, after count: Int) -> Bool {
        if octet == Self.byteOrderMark[count] {
            state = count + 1 < Self.byteOrderMark.count ? .beginning(count + 1) : .number
            return true
        }
        state = .number
        if count > 0 { refuse() }
        return false
    }

    private mutating func append(_ digit: UInt8) {
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
