import Testing

@testable import Pushes

/// The parsing of user ids, one per line, from a text that may be split anywhere.
@Suite struct UserIDLinesTests {
    private struct Reading: Equatable {
        var ids: [Int64] = []
        var badLines: [Int] = []
    }

    private static func read(_ pieces: [[UInt8]]) -> Reading {
        var lines = UserIDLines()
        var reading = Reading()
        for piece in pieces { lines.read(piece) { reading.ids.append($0) } }
        lines.end { reading.ids.append($0) }
        reading.badLines = lines.badLines
        return reading
    }

    /// Parses a text at once, octet by octet, and split at every offset. All results must agree.
    private static func read(_ text: String) -> Reading {
        let bytes = Array(text.utf8)
        let whole = read([bytes])
        #expect(read(bytes.map { [$0] }) == whole)
        for cut in bytes.indices { #expect(read([Array(bytes[..<cut]), Array(bytes[cut...])]) == whole) }
        return whole
    }

    @Test(
        "Lines may end with LF, CR LF or the end of the text, and empty lines are skipped",
        arguments: [
            ("", []), ("1", [1]), ("1\n", [1]), ("1\n2", [1, 2]), ("1\r\n2\r\n", [1, 2]), ("1\r\n2\n3", [1, 2, 3]),
            ("\n\n1\n\n\r\n2\n\n", [1, 2]), ("3\n1\n3\n", [3, 1, 3]), ("10\n100", [10, 100]),
            ("9223372036854775807\n1000000000000000000", [.max, 1_000_000_000_000_000_000]),
            ("\u{FEFF}1\r\n2", [1, 2]), ("\u{FEFF}", []),
        ] as [(String, [Int64])]
    )
    func good(text: String, ids: [Int64]) {
        #expect(Self.read(text) == Reading(ids: ids))
    }

    @Test(
        "An invalid line is reported by its number, counted from 1, and its neighbors are parsed",
        arguments: [
            "0", "00", "01", "-1", "+1", " 1", "1 ", "1\t", "a", "1a", "0x1", "1.0", "1e3", "1,2", "\"1\"", "1\r1",
            "\r1",
            "1\r\r", "\u{FEFF}\u{FEFF}1", "\u{FEFA}1", "1\u{FEFF}", "١", "9223372036854775808", "9999999999999999999",
            "18446744073709551617",
            "10000000000000000000", "1\0", String(repeating: "9", count: 1000),
        ]
    )
    func bad(line: String) {
        #expect(Self.read(line) == Reading(badLines: [1]))
        #expect(Self.read("7\n\n\(line)\n8\r\n\(line)\r\n9") == Reading(ids: [7, 8, 9], badLines: [3, 5]))
    }

    @Test("A text that ends between CR and LF is incomplete")
    func cutLineEnd() {
        #expect(Self.read("1\n2\r") == Reading(ids: [1], badLines: [2]))
    }

    @Test("At most ten invalid lines are reported; parsing stops then, or 1 MiB after the first")
    func hopeless() {
        var lines = UserIDLines()
        lines.read(Array(String(repeating: "x\n1\n", count: 9).utf8)) { _ in }
        #expect(!lines.isHopeless)
        lines.read(Array("x".utf8)) { _ in }
        #expect(lines.isHopeless)
        lines.read(Array("\nx\nx\n".utf8)) { _ in }
        #expect(lines.badLines == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19])

        var endless = UserIDLines()
        let piece = [UInt8](repeating: UInt8(ascii: "1"), count: 1 << 16)
        var pieces = 0
        while !endless.isHopeless, pieces < 100 {
            endless.read(piece) { _ in }
            pieces += 1
        }
        #expect(pieces == 18)
        #expect(endless.badLines == [1])
    }
}
