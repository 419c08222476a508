import EventLoop
import TestSupport
import Testing

@testable import Net

@Suite("Forms with files", .timeLimit(.minutes(2)))
struct MultipartParserTests {
    private static let type = "multipart/form-data; boundary=XX"

    /// What a form says, with the bytes of each part joined.
    private enum Outcome: Equatable {
        case parts([Content], isEnded: Bool)
        case refused(String)
    }

    private struct Content: Equatable {
        let part: MultipartParser.Part
        var bytes: [UInt8] = []
        var isEnded = false
    }

    private static func outcome(_ pieces: [ArraySlice<UInt8>], type: String = type) -> Outcome {
        var parts: [Content] = []
        var isEnded = false
        do throws(MultipartParser.ParseError) {
            var parser = try MultipartParser(contentType: type)
            for piece in pieces {
                for event in try parser.receive(piece) {
                    switch event {
                    case .partBegan(let part):
                        #expect(parts.last?.isEnded != false)
                        parts.append(Content(part: part))
                    case .bytes(let bytes):
                        #expect(!bytes.isEmpty)
                        parts[parts.count - 1].bytes += bytes
                    case .partEnded: parts[parts.count - 1].isEnded = true
                    case .ended:
                        #expect(!isEnded)
                        isEnded = true
                    }
                }
            }
            try parser.finish()
        } catch {
            return .refused(error.reason)
        }
        #expect(!parts.contains { !$0.isEnded })
        return .parts(parts, isEnded: isEnded)
    }

    /// Returns the outcome of a form, which must be the same wherever it is cut.
    private static func everywhere(_ text: [UInt8], type: String = type) -> Outcome {
        let whole = outcome([text[...]], type: type)
        let cut = text.indices.first { outcome([text[..<$0], text[$0...]], type: type) != whole }
        #expect(cut == nil, "a cut changes the result of \(String(decoding: text.prefix(200), as: UTF8.self))")
        #expect(outcome(text.indices.map { text[$0...$0] }, type: type) == whole)
        return whole
    }

    private static func content(
        _ name: String,
        _ text: String,
        file: String? = nil,
        type: String? = nil
    ) -> Content {
        let part = MultipartParser.Part(name: name, fileName: file, contentType: type)
        return Content(part: part, bytes: Array(text.utf8), isEnded: true)
    }

    @Test("Fields and files are read in their order, wherever the bytes are cut")
    func form() {
        let form = """
            --XX\r
            Content-Disposition: form-data; name="secure_resource"\r
            \r
            true\r
            --XX\r
            content-disposition:form-data;name=file ; filename="a \\"b\\" C:\\\\x\\y 한.png"\r
            X-Other: yes\r
            Content-Type:  image/png \r
            \r
            \r
            --X\r\n\r\r\n--XY-\n--XX\r
            --XX  \t\r
            Content-Disposition: form-data; name="empty"\r
            \r
            \r
            --XX--\r
            the end, --XX\r\n--XX\r\n
            """
        let expected = [
            Self.content("secure_resource", "true"),
            Self.content(
                "file",
                "\r\n--X\r\n\r\r\n--XY-\n--XX",
                file: #"a "b" C:\x\y 한.png"#,
                type: "image/png"
            ),
            Self.content("empty", ""),
        ]
        #expect(Self.everywhere(Array(form.utf8)) == .parts(expected, isEnded: true))
        // Text before the first boundary is ignored.
        for preamble in ["\r\n", "hello --XX\r\n", "\r\r\n\r\n--X\r\n"] {
            #expect(Self.everywhere(Array((preamble + form).utf8)) == .parts(expected, isEnded: true))
        }
    }

    @Test("A part without a content, as RFC 2046 allows, and a form without parts")
    func empty() {
        let head = "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n"
        #expect(
            Self.everywhere(Array("\(head)\r\n--XX--".utf8)) == .parts([Self.content("a", "")], isEnded: true)
        )
        #expect(Self.everywhere(Array("--XX--".utf8)) == .parts([], isEnded: true))
        #expect(
            Self.everywhere(Array("\(head)\r\n\r\r\n--XX--".utf8)) == .parts([Self.content("a", "\r")], isEnded: true)
        )
    }

    @Test(
        "A malformed form is rejected with the reason, wherever the bytes are cut",
        arguments: [
            ("", "does not contain the boundary"),
            ("hello", "does not contain the boundary"),
            ("--XY--", "does not contain the boundary"),
            ("--XX", "ends before its last boundary"),
            ("--XX\r\n", "ends before its last boundary"),
            ("--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nhello\r\n--XX-", "ends before its last boundary"),
            ("--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nhello\r\n--XX\r\n", "ends before"),
            ("--XX\nContent-Disposition: form-data; name=a\n\nhello\n--XX--", "LF instead of CR LF"),
            ("--XX\r\nContent-Disposition: form-data; name=a\n\r\n", "LF instead of CR LF"),
            ("--XXY\r\nContent-Disposition: form-data; name=a\r\n\r\n", "followed by other bytes"),
            ("--XX\r\n\r\nhello\r\n--XX--", "no name"),
            ("--XX\r\nContent-Type: text/plain\r\n\r\nhello\r\n--XX--", "no name"),
            ("--XX\r\nContent-Disposition: form-data\r\n\r\nhello\r\n--XX--", "no name"),
            ("--XX\r\nContent-Disposition: attachment; name=a\r\n\r\n--XX--", "is not form-data"),
            ("--XX\r\nContent-Disposition: form-data; name=\"a\r\n\r\n--XX--", "is not form-data"),
            ("--XX\r\nContent-Disposition: form-data; name=a b\r\n\r\n--XX--", "is not form-data"),
            ("--XX\r\nContent-Disposition: form-data; name=a; NAME=b\r\n\r\n--XX--", "is not form-data"),
            (
                "--XX\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b\r\n\r\n",
                "two Content-Disposition"
            ),
            ("--XX\r\nContent-Disposition\r\n\r\n", "not `name: value`"),
            ("--XX\r\n: x\r\n\r\n", "not `name: value`"),
            ("--XX\r\n folded: x\r\n\r\n", "not `name: value`"),
            ("--XX\r\nX: \0\r\n\r\n", "not `name: value`"),
            ("--XX\r\nX: a\rb\r\n\r\n", "not `name: value`"),
            (
                "--XX\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\n",
                "Content-Transfer-Encoding"
            ),
        ]
    )
    func malformed(text: String, reason: String) {
        guard case .refused(let given) = Self.everywhere(Array(text.utf8)) else {
            Issue.record("accepted")
            return
        }
        #expect(given.contains(reason), "\(given)")
    }

    @Test("A name in invalid UTF-8 is rejected; the name of a file need not be UTF-8")
    func encoding() {
        func form(_ parameters: [UInt8]) -> [UInt8] {
            Array("--XX\r\nContent-Disposition: form-data; ".utf8) + parameters + Array("\r\n\r\nx\r\n--XX--".utf8)
        }
        let name = form(Array("name=\"".utf8) + [0xC7, 0xD1] + Array("\"".utf8))
        #expect(Self.everywhere(name) == .refused("A part has no name in UTF-8 in its Content-Disposition."))
        let file = form(Array("name=\"a\"; filename=\"".utf8) + [0xC7] + Array("\"".utf8))
        #expect(
            Self.everywhere(file) == .parts([Self.content("a", "x", file: "\u{FFFD}")], isEnded: true)
        )
    }

    @Test("A head of 8 KiB and 20 parts are accepted, and no more")
    func limits() {
        func form(headBytes: Int) -> [UInt8] {
            let start = "\r\nContent-Disposition: form-data; name=a\r\nX: "
            let rest = headBytes - start.utf8.count - 4
            return Array("--XX\(start)\(String(repeating: "x", count: rest))\r\n\r\n\r\n--XX--".utf8)
        }
        let limit = MultipartParser.maximumHeadBytes
        #expect(Self.outcome([form(headBytes: limit)[...]]) == .parts([Self.content("a", "")], isEnded: true))
        let tooLong = Outcome.refused("The head of a part is longer than 8192 bytes.")
        let long = form(headBytes: limit + 1)
        #expect(Self.outcome([long[...]]) == tooLong)
        #expect(Self.outcome(long.indices.map { long[$0...$0] }) == tooLong)
        // A head without an end.
        let endless = Array("--XX\r\n".utf8) + [UInt8](repeating: 0x41, count: 10_000)
        #expect(Self.outcome([endless[...]]) == tooLong)

        let part = "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n"
        let parts = String(repeating: part, count: MultipartParser.maximumParts)
        let twenty = Array(repeating: Self.content("a", ""), count: 20)
        #expect(Self.everywhere(Array("\(parts)--XX--".utf8)) == .parts(twenty, isEnded: true))
        #expect(Self.everywhere(Array("\(parts)\(part)--XX--".utf8)) == .refused("The form has more than 20 parts."))
    }

    @Test(
        "The boundary is that of the Content-Type",
        arguments: [
            ("multipart/form-data; boundary=XX", true),
            ("Multipart/Form-Data;charset=utf-8;BOUNDARY=\"XX\"", true),
            ("multipart/form-data ; boundary = XX", false),
            ("multipart/form-data; boundary=", false),
            ("multipart/form-data; boundary=\"\"", false),
            ("multipart/form-data; boundary=\"XX \"", false),
            ("multipart/form-data; boundary=XX; boundary=YY", false),
            ("multipart/form-data", false),
            ("multipart/mixed; boundary=XX", false),
            ("multipart/form-data; boundary=\(String(repeating: "X", count: 71))", false),
            ("", false),
        ]
    )
    func boundary(type: String, isValid: Bool) {
        if isValid {
            #expect(Self.outcome(["--XX--".utf8.map(\.self)[...]], type: type) == .parts([], isEnded: true))
        } else {
            #expect(throws: MultipartParser.ParseError.self) { try MultipartParser(contentType: type) }
        }
    }

    @Test("After an error, each further piece is rejected with it")
    func afterwards() throws {
        var parser = try MultipartParser(contentType: Self.type)
        let reason = "A boundary is followed by other bytes than the end of its line."
        for piece in ["--XX!\r\n", "--XX--", ""] {
            #expect(throws: MultipartParser.ParseError(reason)) { try parser.receive(Array(piece.utf8)) }
        }
        #expect(throws: MultipartParser.ParseError(reason)) { try parser.finish() }
    }

    @Test("Random mutations of a form give the same result wherever they are cut", arguments: 0..<200 as Range<UInt64>)
    func mutated(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var form = Array(
            ("--XX\r\nContent-Disposition: form-data; name=\"a\"; filename=b\r\n\r\n\r\n--X\r\n--XX\r\nA: b\r\n"
                + "Content-Disposition: form-data; name=c\r\n\r\n12\r\n--XX--\r\n").utf8
        )
        let alphabet = Array("\r\n-X\r\n--XX\";=:\\ a\u{0}".utf8) + [0xFF]
        for _ in 0..<random.next(upperBound: UInt64(6)) {
            let place = Int(random.next(upperBound: UInt64(form.count)))
            let octet = alphabet[Int(random.next(upperBound: UInt64(alphabet.count)))]
            switch random.next(upperBound: UInt64(3)) {
            case 0: form[place] = octet
            case 1: form.insert(octet, at: place)
            default: form.remove(at: place)
            }
        }
        _ = Self.everywhere(form)
    }

    @Test("Random bytes are rejected without a trap", arguments: 0..<50 as Range<UInt64>)
    func noise(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let alphabet = Array("\r\n-X".utf8)
        let bytes = (0..<2000).map { _ in alphabet[Int(random.next(upperBound: UInt64(4)))] }
        _ = Self.outcome([bytes[...]])
        _ = Self.outcome(bytes.indices.map { bytes[$0...$0] })
    }

    @Test(
        "The time for hostile content grows with its length only",
        arguments: ["\r", "\r\n", "\r\n-", "\r\n--X", "\r\n--XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX", "-"]
    )
    func hostile(unit: String) throws {
        let type = "multipart/form-data; boundary=\(String(repeating: "X", count: 69))Y"
        let start = "--\(String(repeating: "X", count: 69))Y\r\nContent-Disposition: form-data; name=a\r\n\r\n"
        let body = Array(String(repeating: unit, count: 400_000 / unit.utf8.count + 1).utf8)
        /// Returns the processor time for parsing the body's first `length` bytes, `times` times, in pieces of `size` bytes.
        func time(_ length: Int, times: Int, _ size: Int) throws -> Duration {
            let begin = ProcessorTime.ofThread
            for _ in 0..<times {
                var parser = try MultipartParser(contentType: type)
                _ = try parser.receive(Array(start.utf8))
                for place in stride(from: 0, to: length, by: size) {
                    _ = try parser.receive(body[place..<min(place + size, length)])
                }
            }
            return ProcessorTime.ofThread - begin
        }
        // A quadratic scan takes 16 times as long for one long body as for the same bytes in 16 short ones.
        for size in [1, 1000, body.count] {
            let (short, long) = (try time(25_000, times: 16, size), try time(400_000, times: 1, size))
            #expect(long < short * 4)
        }
    }
}
