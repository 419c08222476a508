import Crypto

/// A script: its statements, as `psql` separates them, and its checksum.
///
/// Each statement is sent alone, so that the line of a failure is known even if PostgreSQL names no position. A standard
/// body (`BEGIN ATOMIC`) is not understood: functions have their bodies in quotes.
struct SQLScript: Sendable, Equatable {
    struct Statement: Sendable, Equatable {
        /// The text without the comments before it and the semicolon behind it.
        let text: String
        /// The line on which the text begins, from 1.
        let line: Int

        /// Returns the line of a position in the text, which PostgreSQL counts in characters from 1.
        func line(ofPosition position: Int?) -> Int {
            guard let position else { return line }
            return line + text.unicodeScalars.prefix(max(0, position - 1)).count { $0 == "\n" }
        }

        /// What a statement creates. The migrator applies the functions of all files in `functions`, then their triggers, then their views.
        enum Kind: Sendable, Equatable {
            /// It creates a trigger.
            case trigger
            /// It creates a view.
            case view
            /// It does anything else, such as creating a function.
            case other
        }

        var kind: Kind {
            var words = text.split(maxSplits: 4, whereSeparator: \.isWhitespace).map { $0.uppercased() }[...]
            guard words.popFirst() == "CREATE" else { return .other }
            if words.starts(with: ["OR", "REPLACE"]) { words = words.dropFirst(2) }
            return switch words.first {
            case "TRIGGER": .trigger
            case "VIEW": .view
            default: .other
            }
        }

        /// The word for which the migrator refuses the statement: it runs each file within a transaction of its own,
        /// and neither sends nor receives data.
        var refusedWord: String? {
            let word = text.prefix { $0.isLetter }.uppercased()
            return switch word {
            case "BEGIN", "START", "SAVEPOINT", "COMMIT", "END", "ROLLBACK", "ABORT": word
            case "PREPARE" where text.uppercased().contains("TRANSACTION"): "PREPARE TRANSACTION"
            case "COPY" where text.uppercased().contains("STDIN"): "COPY FROM STDIN"
            case "COPY" where text.uppercased().contains("STDOUT"): "COPY TO STDOUT"
            default: nil
            }
        }
    }

    let statements: [Statement]
    /// The SHA-256 of the text.
    let checksum: [UInt8]

    init(_ text: String) {
        checksum = SHA256Digest.of(text)
        var scanner = Scanner(bytes: Array(text.utf8))
        statements = scanner.statements()
    }

    /// Finds the semicolons outside of quotes, comments and parentheses (PostgreSQL manual, "Lexical Structure").
    private struct Scanner {
        let bytes: [UInt8]
        private var position = 0

        init(bytes: [UInt8]) {
            self.bytes = bytes
        }

        mutating func statements() -> [Statement] {
            var statements: [Statement] = []
            var start: Int?
            var depth = 0
            while position < bytes.count {
                if skipSpace() { continue }
                let byte = bytes[position]
                if byte == UInt8(ascii: ";"), depth == 0 {
                    if let start { statements.append(statement(start)) }
                    start = nil
                    position += 1
                    continue
                }
                start = start ?? position
                switch byte {
                case UInt8(ascii: "'"): skipQuoted(byte, hasEscapes: isEscapeString)
                case UInt8(ascii: "\""): skipQuoted(byte, hasEscapes: false)
                case UInt8(ascii: "$"): skipDollar()
                case UInt8(ascii: "("): (depth, position) = (depth + 1, position + 1)
                case UInt8(ascii: ")"): (depth, position) = (max(0, depth - 1), position + 1)
                default: position += 1
                }
            }
            if let start { statements.append(statement(start)) }
            return statements
        }

        private func statement(_ start: Int) -> Statement {
            Statement(
                text: String(decoding: bytes[start..<position], as: UTF8.self),
                line: 1 + bytes[..<start].count { $0 == UInt8(ascii: "\n") }
            )
        }

        private func follows(_ text: StaticString) -> Bool {
            text.withUTF8Buffer { bytes[position...].starts(with: $0) }
        }

        /// Skips a white-space character or a comment. Comments in `/* */` may contain others.
        private mutating func skipSpace() -> Bool {
            if follows("--") {
                position = bytes[position...].firstIndex { [0x0A, 0x0D].contains($0) } ?? bytes.count
            } else if follows("/*") {
                var depth = 0
                repeat {
                    if follows("/*") {
                        (depth, position) = (depth + 1, position + 2)
                    } else if follows("*/") {
                        (depth, position) = (depth - 1, position + 2)
                    } else {
                        position += 1
                    }
                } while depth > 0 && position < bytes.count
            } else if [0x20, 0x09, 0x0A, 0x0C, 0x0D].contains(bytes[position]) {
                position += 1
            } else {
                return false
            }
            return true
        }

        /// Whether the quote at the position begins a string such as `E'\''`.
        private var isEscapeString: Bool {
            guard position > 0, bytes[position - 1] | 0x20 == UInt8(ascii: "e") else { return false }
            return position < 2 || !Self.isIdentifier(bytes[position - 2])
        }

        /// Skips a quoted text. A quote in it is doubled, and so looks like the end of one text and the start of another.
        private mutating func skipQuoted(_ quote: UInt8, hasEscapes: Bool) {
            position += 1
            while position < bytes.count, bytes[position] != quote {
                position += hasEscapes && bytes[position] == UInt8(ascii: "\\") ? 2 : 1
            }
            position = min(position + 1, bytes.count)
        }

        /// Skips a text in dollar quotes, such as `$$ … $$` or `$body$ … $body$`, or a dollar sign that begins none.
        private mutating func skipDollar() {
            var end = position + 1
            while end < bytes.count, Self.isIdentifier(bytes[end]), bytes[end] != UInt8(ascii: "$") { end += 1 }
            let isDelimiter =
                end < bytes.count && bytes[end] == UInt8(ascii: "$")
                && (position == 0 || !Self.isIdentifier(bytes[position - 1]))
                && !(0x30...0x39).contains(bytes[position + 1])
            guard isDelimiter else {
                position += 1
                return
            }
            let delimiter = bytes[position...end]
            position = end + 1
            while position < bytes.count, !bytes[position...].starts(with: delimiter) { position += 1 }
            position = min(position + delimiter.count, bytes.count)
        }

        private static func isIdentifier(_ byte: UInt8) -> Bool {
            (0x61...0x7A).contains(byte | 0x20) || (0x30...0x39).contains(byte) || byte == UInt8(ascii: "_")
                || byte == UInt8(ascii: "$") || byte >= 0x80
        }
    }
}
