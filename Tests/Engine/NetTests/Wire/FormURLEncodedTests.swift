import Testing

@testable import Net

@Suite("Forms and queries")
struct FormURLEncodedTests {
    private func parse(_ text: String) throws -> [[String]] {
        try FormURLEncoded.parse(Array(text.utf8)[...]).map { [$0.name, $0.value] }
    }

    @Test(
        "Names and values are decoded in order",
        arguments: [
            ("", []),
            ("a=1&b=2&a=3", [["a", "1"], ["b", "2"], ["a", "3"]]),
            ("a", [["a", ""]]),
            ("a=", [["a", ""]]),
            ("=a", [["", "a"]]),
            ("a=b=c", [["a", "b=c"]]),
            ("&&a=1&&", [["a", "1"]]),
            ("a+b=c+d%2Be", [["a b", "c d+e"]]),
            ("%61%3D=%26%25", [["a=", "&%"]]),
            ("name=%EC%B9%B4%ec%b9%b4%ec%98%a4", [["name", "카카오"]]),
            ("uuids=%5B1%2C2%5D", [["uuids", "[1,2]"]]),
        ]
    )
    func pairs(text: String, pairs: [[String]]) throws {
        #expect(try parse(text) == pairs)
    }

    @Test(
        "A percent sign without two hexadecimal digits is rejected",
        arguments: ["%", "a=%4", "%4g=1", "a=%%41", "a=b%"]
    )
    func badPercent(text: String) {
        #expect(throws: FormURLEncoded.ParseError(message: "A % is not followed by two hexadecimal digits.")) {
            try parse(text)
        }
    }

    @Test("Invalid UTF-8 is rejected", arguments: ["a=%ff", "%c3=1", "a=%ed%a0%80", "a=%c0%80"])
    func badText(text: String) {
        #expect(throws: FormURLEncoded.ParseError(message: "The bytes are invalid UTF-8.")) { try parse(text) }
    }

    @Test("A thousand pairs are accepted and one more is rejected")
    func tooMany() throws {
        let thousand = Array(repeating: "a=1", count: 1000).joined(separator: "&")
        #expect(try parse(thousand).count == 1000)
        #expect(try parse(thousand + "&").count == 1000)
        #expect(throws: FormURLEncoded.ParseError(message: "There are more than 1000 pairs.")) {
            try parse(thousand + "&a=1")
        }
    }

    @Test("In a path, a plus sign is not a space")
    func path() throws {
        #expect(try FormURLEncoded.percentDecoded(Array("a+b%20c".utf8)[...], plusIsSpace: false) == "a+b c")
    }

    @Test("A slice is decoded by its own indices")
    func slice() throws {
        let bytes = Array("xx%41yy".utf8)
        #expect(try FormURLEncoded.percentDecoded(bytes[2..<5], plusIsSpace: true) == "A")
        #expect(throws: FormURLEncoded.ParseError.self) {
            try FormURLEncoded.percentDecoded(bytes[2..<4], plusIsSpace: true)
        }
    }
}
