import JSON
import Testing

/// Texts that RFC 8259 forbids or that we reject beyond it: the categories of the public JSONTestSuite's `n_` cases,
/// and the `i_` cases that we chose to reject.
@Suite("Rejected JSON")
struct RefusedTests {
    @Test(
        "A text that is not a value is rejected at its first invalid byte",
        arguments: [
            ("", 0), (" ", 1), ("\n\t ", 3), ("\u{FEFF}", 0), ("\u{FEFF}{}", 0), ("\u{2060}", 0), ("\u{A0}1", 0),
            ("\u{C}[]", 0),
            ("nan", 0), ("NaN", 0), ("Infinity", 0), ("-Infinity", 1), ("nul", 0), ("nulll", 4), ("nullify", 4),
            ("truth", 0), ("tru", 0),
            ("True", 0), ("TRUE", 0), ("fals", 0), ("falsy", 0), ("undefined", 0), ("a", 0), ("å", 0), ("*", 0),
            ("<.>", 0), ("'a'", 0),
            ("]", 0), ("}", 0), (",", 0), (":", 0), ("\\u0020", 0), ("\0", 0), ("[\0]", 1), ("\u{7F}", 0),
        ]
    )
    func values(text: String, offset: Int) {
        #expect(refusal(of: text)?.offset == offset)
    }

    @Test(
        "An invalid number is rejected at its first invalid byte",
        arguments: [
            ("+1", 0), ("++1234", 0), (".5", 0), (".2e-3", 0), ("-", 1), ("-a", 1), ("--1", 1), ("-.5", 1), ("- 1", 1),
            ("+Inf", 0),
            ("1.", 2), ("-2.", 3), ("2.e3", 2), ("2.e+3", 2), ("2.e-3", 2), ("0.e1", 2), ("1.5.", 3), ("0.1.2", 3),
            ("1e", 2),
            ("1E", 2), ("0e", 2), ("0E+", 3), ("1e+", 3), ("1.0e-", 5), ("0.3e+", 5), ("1eE2", 2), ("1e1.5", 3),
            ("1e+-2", 3),
            ("9.e+", 2), ("00", 1), ("01", 1), ("-01", 2), ("-012", 2), ("012", 1), ("007", 1), ("-00", 2), ("0x1", 1),
            ("0x42", 1),
            ("1_000", 1), ("1,000", 1), ("1 000", 2), ("1+2", 1), ("1-", 1), ("１", 0), ("1a", 1), ("1.2a", 3),
            ("1e5f", 3), ("-foo", 1),
            ("-123.123foo", 8), ("0.1f", 3),
        ]
    )
    func numbers(text: String, offset: Int) {
        #expect(refusal(of: text)?.offset == offset)
        #expect(refusal(of: "[\(text)]") != nil)
        #expect(JSONNumber(text) == nil)
    }

    @Test(
        "An invalid string is rejected",
        arguments: [
            // Unterminated.
            (#"""#, 1), (#""abc"#, 4), (#""abc\"#, 5), (#""abc\""#, 6), (#""\u00"#, 5), (#"["a"#, 3), (#"["a\\\"]"#, 8),
            ("\"\u{1F389}", 5),
            // Unescaped control characters.
            ("\"\n\"", 1), ("\"a\tb\"", 2), ("\"a\0b\"", 2), ("\"\u{1F}\"", 1), ("\"12345678\r\"", 9), ("\"\\n\n\"", 3),
            // Unknown or incomplete escapes.
            (#""\x00""#, 1), (#""\a""#, 1), (#""\'""#, 1), (#""\ ""#, 1), (#""\U0041""#, 1), (#""\0""#, 1),
            (#""\🎉""#, 1), (#""\v""#, 1),
            (#""a\u""#, 2), (#""\u1""#, 1), (#""\u12""#, 1), (#""\u123""#, 1), (#""\u123g""#, 1), (#""\u+123""#, 1),
            (#""\u 123""#, 1),
            (#""\u-001""#, 1), (#""\u00A""#, 1), (#""\u{41}""#, 1), ("\"\\\n\"", 1),
            // Unpaired surrogates.
            (#""\uD800""#, 1), (#""\uDFAA""#, 1), (#""\ud83d""#, 1), (#""\uD800a""#, 1), (#""\uD800\n""#, 1),
            (#""\uD800\u""#, 1),
            (#""\uD800\u1""#, 1), (#""\uD800\u1x""#, 1), (#""\uD800\uD800""#, 1), (#""\uD800\uD800\uDC00""#, 1),
            (#""\uDd1e\uD834""#, 1),
            (#""\uD888\u1234""#, 1), (#""\uDBFF\uDBFF""#, 1), (#""ok \uD83D\uDE00 \uDE00""#, 17),
            (#""\uD834\\uDD1E""#, 1),
        ]
    )
    func strings(text: String, offset: Int) {
        #expect(refusal(of: text)?.offset == offset)
        #expect(refusal(of: "{\(text):1}") != nil)
    }

    @Test(
        "Invalid UTF-8 is rejected at its first invalid byte",
        arguments: [
            [0x80], [0xBF], [0xE9], [0xFF], [0xFE], [0xC3], [0xC3, 0x28],  // lone or truncated
            [0xC0, 0xAF], [0xC1, 0xBF],  // overlong
            [0xE0, 0x80, 0xAF], [0xE0, 0x9F, 0xBF], [0xF0, 0x80, 0x80, 0xAF], [0xF0, 0x8F, 0xBF, 0xBF],  // overlong
            [0xFC, 0x83, 0xBF, 0xBF, 0xBF, 0xBF], [0xF8, 0x88, 0x80, 0x80, 0x80],  // five and six bytes
            [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xED, 0xA0, 0xBD, 0xED, 0xB8, 0x80],  // surrogates
            [0xF4, 0x90, 0x80, 0x80], [0xF4, 0xBF, 0xBF, 0xBF], [0xF5, 0x80, 0x80, 0x80],  // beyond U+10FFFF
            [0xE2, 0x82], [0xE2, 0x28, 0xA1], [0xF0, 0x9F, 0x8E], [0xF0, 0x28, 0x8C, 0xBC],
            [0xE6, 0x97, 0xA5, 0xD1, 0x88, 0xFA],
        ] as [[UInt8]]
    )
    func notUTF8(bytes: [UInt8]) throws {
        let whole = bytes.count == 6 && bytes[0] == 0xE6 ? 5 : 0
        for padding in 0..<9 {
            let before = Array("[\"\(repeating("p", padding))".utf8)
            let plain = try #require(refusal(of: before + bytes + Array("\"]".utf8)))
            #expect(plain == JSONError(offset: before.count + whole, message: "invalid UTF-8"))
            let escaped = try #require(refusal(of: before + Array(#"\n"#.utf8) + bytes + Array(#"\n"]"#.utf8)))
            #expect(escaped == JSONError(offset: before.count + 2 + whole, message: "invalid UTF-8"))
        }
        #expect(refusal(of: bytes)?.offset == 0)
        #expect(refusal(of: Array("[1".utf8) + bytes)?.offset == 2)
    }

    @Test("UTF-16 is rejected in either byte order, with or without a byte order mark")
    func utf16() {
        #expect(refusal(of: [0x5B, 0x00, 0x5D, 0x00]) != nil)
        #expect(refusal(of: [0x00, 0x5B, 0x00, 0x5D]) != nil)
        #expect(refusal(of: [0xFF, 0xFE, 0x5B, 0x00, 0x5D, 0x00]) != nil)
        #expect(refusal(of: [0xFE, 0xFF, 0x00, 0x5B, 0x00, 0x5D]) != nil)
    }

    @Test(
        "An invalid array is rejected at its first invalid byte",
        arguments: [
            ("[", 1), ("[1", 2), ("[1,", 3), ("[,", 1), ("[1,]", 3), ("[1,,2]", 3), ("[,1]", 1), ("[,]", 1),
            ("[1 2]", 3), ("[1 true]", 3),
            (#"["a" "b"]"#, 5), (#"["":1]"#, 3), ("[1:2]", 2), ("[3[4]]", 2), ("[1}", 2), ("[a", 1), ("[*]", 1),
            ("[-]", 2), ("[1\n,1\n,1", 8),
            ("[ false, nul]", 9), ("[ true, fals]", 8), ("[1/**/]", 2), ("[//c\n1]", 1), ("[1]]", 3), ("[1],", 3),
            ("[][]", 2), ("[\u{B}]", 1),
            ("[\"\u{B}a\"]", 2), ("[1,\n1\n,1", 8), ("[{}", 3),
        ]
    )
    func arrays(text: String, offset: Int) {
        #expect(refusal(of: text)?.offset == offset)
    }

    @Test(
        "An invalid object is rejected at its first invalid byte",
        arguments: [
            ("{", 1), (#"{"a"#, 3), (#"{"a""#, 4), (#"{"a":"#, 5), (#"{"a":1"#, 6), (#"{"a":1,"#, 7), (#"{"a":1,}"#, 7),
            (#"{"a":1,,"b":2}"#, 7),
            (#"{,"a":1}"#, 1), ("{,}", 1), (#"{"a"}"#, 4), (#"{"a",1}"#, 4), (#"{"a" 1}"#, 5), (#"{"a"::1}"#, 5),
            (#"{"a":}"#, 5), ("{:1}", 1),
            ("{a:1}", 1), ("{'a':1}", 1), ("{1:1}", 1), ("{null:1}", 1), ("{[]:1}", 1), (#"{"a":1 "b":2}"#, 7),
            (#"{"a":1;"b":2}"#, 6),
            (#"{"a":1]"#, 6), (#"{"a":a"#, 5), (#"{"a":1}}"#, 7), (#"{"a":1}#"#, 7), (#"{"a":1}/**/"#, 7),
            (#"{"a":1}//"#, 7), ("{}{}", 2),
            (#"{"a":1 /* no */}"#, 7), (#"{"a": "b",#c"#, 10), ("{\"\\uD800\":1}", 2), (#"{"a":"b"}#{}"#, 9),
        ]
    )
    func objects(text: String, offset: Int) {
        #expect(refusal(of: text)?.offset == offset)
    }

    @Test("An error names the expected token and its offset")
    func messages() {
        #expect(refusal(of: #"{"a":1 "b":2}"#)?.description == "expected ',' or '}' at byte 7")
        #expect(refusal(of: "[1 2]")?.description == "expected ',' or ']' at byte 3")
        #expect(refusal(of: #"{"a" 1}"#)?.description == "expected ':' at byte 5")
        #expect(refusal(of: #"{"a":1,}"#)?.description == "expected a member name at byte 7")
        #expect(refusal(of: "[1,]")?.description == "expected a value at byte 3")
        #expect(refusal(of: "")?.description == "expected a value at byte 0")
        #expect(refusal(of: "1 2")?.description == "expected the end of the text at byte 2")
        #expect(refusal(of: "01")?.description == "leading zero in a number at byte 1")
        #expect(refusal(of: "1.")?.description == "expected a digit at byte 2")
    }

    @Test("A duplicate name in an object is rejected at its offset, escaped or not")
    func duplicateNames() {
        let message = "duplicate member name"
        #expect(refusal(of: #"{"a":1,"a":1}"#) == JSONError(offset: 7, message: message))
        #expect(refusal(of: #"{"a":1,"b":{"c":1, "\u0063":2}}"#) == JSONError(offset: 19, message: message))
        #expect(refusal(of: #"{"":1,"":2}"#) == JSONError(offset: 6, message: message))
        #expect(refusal(of: #"[{"a":1},{"a":1}]"#) == nil)
        #expect(refusal(of: #"{"a":{"a":{"a":1}}}"#) == nil)
    }

    @Test("Names are compared by bytes: a precomposed and a decomposed syllable are two names")
    func namesAreBytes() throws {
        let text = "{\"\u{D55C}\":1,\"\u{1112}\u{1161}\u{11AB}\":2}"
        let value = try JSONValue(parsing: text)
        #expect(value.object?.count == 2)
        #expect(value["\u{D55C}"] == 1)
        #expect(value["\u{1112}\u{1161}\u{11AB}"] == 2)
    }

    @Test("A duplicate is found among 20,000 names in linear time")
    func duplicateAmongMany() {
        var text = "{" + (0..<20_000).map { "\"name\($0)\":\($0)," }.joined()
        let offset = text.utf8.count
        text += "\"name123\":0}"
        #expect(refusal(of: text)?.offset == offset)
    }

    @Test(
        "Nesting deeper than allowed is rejected at the first bracket too many",
        arguments: [0, 1, 2, 63, 64, 511, 512]
    )
    func tooDeep(depth: Int) {
        let message = "nested too deeply"
        #expect(
            refusal(of: repeating("[", depth + 1), maximumDepth: depth) == JSONError(offset: depth, message: message)
        )
        let objects = repeating(#"{"":"#, depth + 1)
        #expect(refusal(of: objects, maximumDepth: depth) == JSONError(offset: 4 * depth, message: message))
    }

    @Test("100,000 open brackets are rejected, whatever depth the caller allows")
    func veryDeep() {
        #expect(refusal(of: repeating("[", 100_000))?.offset == 64)
        #expect(refusal(of: repeating(#"[{"":"#, 100_000), maximumDepth: .max)?.message == "nested too deeply")
        #expect(refusal(of: "[]", maximumDepth: -1)?.offset == 0)
    }

    @Test("A text longer than the caller allows is rejected without being parsed")
    func tooLong() {
        #expect(throws: JSONError(offset: 4, message: "text longer than 4 bytes")) {
            try JSONValue(parsing: "[1,2]", maximumBytes: 4)
        }
        #expect(throws: Never.self) { try JSONValue(parsing: "[1,2]", maximumBytes: 5) }
    }
}
