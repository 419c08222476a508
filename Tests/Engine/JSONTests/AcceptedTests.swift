import JSON
import Testing

/// Texts that RFC 8259 allows: the categories of the public JSONTestSuite's `y_` cases, and the `i_` cases that we
/// chose to accept.
@Suite("Accepted JSON")
struct AcceptedTests {
    @Test(
        "A valid text is parsed to its value",
        arguments: [
            // Arrays.
            ("[]", []),
            ("[ ]", []),
            ("[[]]", [[]]),
            ("[[]   ]", [[]]),
            (#"[""]"#, [""]),
            ("[false]", [false]),
            (#"[null, 1, "1", {}]"#, [nil, 1, "1", [:]]),
            ("[null]", [nil]),
            ("[1\n]", [1]),
            (" [1]", [1]),
            ("[2] ", [2]),
            ("[1,null,null,null,2]", [1, nil, nil, nil, 2]),
            // Objects.
            ("{}", [:]),
            (#"{"":0}"#, ["": 0]),
            (#"{"asd":"sdf", "dfg":"fgh"}"#, ["asd": "sdf", "dfg": "fgh"]),
            (#"{"a":[]}"#, ["a": []]),
            ("{\n\"a\": \"b\"\n}", ["a": "b"]),
            (#"{"foo\u0000bar": 42}"#, ["foo\0bar": 42]),
            (
                #"{"x":[{"id":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}]}"#,
                ["x": [["id": .string(repeating("x", 40))]]]
            ),
            (#"{"min":-1,"max":9223372036854775807}"#, ["min": -1, "max": 9_223_372_036_854_775_807]),
            // Names differ by case and by bytes.
            (#"{"a":1,"A":2}"#, ["a": 1, "A": 2]),
            // Values outside an array or object.
            ("true", true),
            ("false", false),
            ("null", nil),
            ("42", 42),
            (#""asd""#, "asd"),
            (#""""#, ""),
            ("[\"a\"]\n", ["a"]),
            // White space of every kind, everywhere.
            (" \t\r\n{ \t\r\n\"a\" \t\r\n: \t\r\n[ \t\r\n1 \t\r\n, \t\r\n2 \t\r\n] \t\r\n} \t\r\n", ["a": [1, 2]]),
        ] as [(String, JSONValue)]
    )
    func structure(text: String, value: JSONValue) throws {
        #expect(try JSONValue(parsing: text) == value)
    }

    @Test(
        "Every escape is decoded to its character",
        arguments: [
            (#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{C}\n\r\t"),
            (#"\u0060\u012a\u12AB"#, "\u{60}\u{12A}\u{12AB}"),
            (#"\u0000"#, "\0"),
            (#"\u0022"#, "\""),
            (#"\u005C"#, "\\"),
            (#"\\u0000"#, "\\u0000"),
            (#"\\\""#, "\\\""),
            (#"\\n"#, "\\n"),
            (#"\uD801\udc37"#, "\u{10437}"),
            (#"\ud83d\ude39\ud83d\udc8d"#, "\u{1F639}\u{1F48D}"),
            (#"\uD834\uDD1E surrogate, four-byte UTF-8"#, "\u{1D11E} surrogate, four-byte UTF-8"),
            (#"\ud800\udc00"#, "\u{10000}"),
            (#"\uD7FF\uE000"#, "\u{D7FF}\u{E000}"),
            (#"\u200B\u2064"#, "\u{200B}\u{2064}"),
            (#"\uA66D\uFEFF"#, "\u{A66D}\u{FEFF}"),
            (#"new\u000Aline"#, "new\nline"),
            (#"\uD55C\uAE00"#, "한글"),
        ]
    )
    func escapes(content: String, string: String) throws {
        let read = try #require(JSONValue(parsing: "\"\(content)\"").string)
        #expect(Array(read.unicodeScalars) == Array(string.unicodeScalars))
    }

    @Test(
        "A Unicode noncharacter is accepted like any other character, escaped or not",
        arguments: [
            (#"\uFDD0"#, 0xFDD0), (#"\uFFFE"#, 0xFFFE), (#"\uFFFF"#, 0xFFFF), (#"\uDBFF\uDFFE"#, 0x10_FFFE),
            (#"\uDBFF\uDFFF"#, 0x10_FFFF),
        ] as [(String, UInt32)]
    )
    func noncharacters(escape: String, codePoint: UInt32) throws {
        let character = String(Character(try #require(Unicode.Scalar(codePoint))))
        #expect(try JSONValue(parsing: "\"\(escape)\"").string == character)
        #expect(try JSONValue(parsing: "\"\(character)\"").string == character)
    }

    @Test(
        "A character that needs no escape is accepted unescaped",
        arguments: [
            "a/*b*/c/*d//e", "asd ", " ", "\u{7F}", "\u{A0}", "\u{2028}\u{2029}", "\u{FEFF}",
            "π", "⍂㈴⍂", "€𝄞", "한글 메시지", "\u{1112}\u{1161}\u{11AB}", "👩‍👩‍👧‍👦🇰🇷", "{[,:]}", "'",
        ]
    )
    func characters(string: String) throws {
        // At every offset within the eight bytes that the scanner reads at a time.
        for padding in 0..<17 {
            let string = repeating("p", padding) + string
            let read = try #require(JSONValue(parsing: "[\"\(string)\"]")[0]?.string)
            #expect(Array(read.utf8) == Array(string.utf8))
        }
    }

    @Test(
        "A number keeps its text, however large, small or odd",
        arguments: [
            "0", "-0", "1", "-1", "-123", "20", "123456789", "0.5", "-0.0", "1.0", "123.456789", "123.456e78", "0e1",
            "0e+1",
            "1E22", "1E-2", "1E+2", "20e1", "1e-2", "1e+2", "1e0", "1E400", "-1e-400", "0.4e006", "1e00",
            "9223372036854775807",
            "-9223372036854775808", "9223372036854775808", "100000000000000000000000000000000", "123123e100000",
            "-0.00000000000000000000000000000000000000000000000000000000000000000000000000000001",
        ]
    )
    func numbers(text: String) throws {
        #expect(try JSONValue(parsing: text).number?.text == text)
        #expect(try JSONValue(parsing: "[\(text)]")[0]?.number?.text == text)
        #expect(try JSONValue(parsing: "{\"n\": \(text) }")["n"]?.number?.text == text)
        #expect(JSONNumber(text)?.text == text)
    }

    @Test("Arrays and objects nest up to the depth that the caller allows")
    func depth() throws {
        let arrays = repeating("[", 64) + repeating("]", 64)
        #expect(try JSONValue(parsing: arrays).description == arrays)
        let objects = repeating(#"{"a":"#, 64) + "1" + repeating("}", 64)
        #expect(try JSONValue(parsing: objects).description == objects)
        #expect(try JSONValue(parsing: "[1,[2],[3]]", maximumDepth: 2) == [1, [2], [3]])
        #expect(try JSONValue(parsing: "7", maximumDepth: 0) == 7)
    }

    @Test("Bytes, a pointer, a span and a string of the same text are parsed to the same value")
    func sources() throws {
        let bytes = Array(Documents.message.utf8)
        let value = try JSONValue(parsing: bytes)
        #expect(try JSONValue(parsing: Documents.message) == value)
        #expect(try JSONValue(parsing: bytes.span) == value)
        #expect(try bytes.withUnsafeBytes { try JSONValue(parsing: $0) } == value)
    }
}

func repeating(_ text: String, _ count: Int) -> String {
    String(repeating: text, count: count)
}
