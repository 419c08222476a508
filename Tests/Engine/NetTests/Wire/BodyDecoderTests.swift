import HTTPTypes
import Testing

@testable import Net

@Suite("Body framing")
struct BodyDecoderTests {
    /// Decodes `text` and returns the body and the number of bytes consumed.
    private func decode(_ decoder: inout BodyDecoder, _ text: String) throws -> (body: String, taken: Int) {
        var body: [UInt8] = []
        let taken = try Array(text.utf8).withUnsafeBytes { try decoder.decode($0) { body += $0 } }
        return (String(decoding: body, as: UTF8.self), taken)
    }

    @Test("A body of known length consumes that many bytes and leaves the rest")
    func fixed() throws {
        var decoder = BodyDecoder(.fixed(5))
        #expect(decoder.remaining == 5)
        #expect(try decode(&decoder, "he") == ("he", 2))
        #expect(decoder.remaining == 3)
        #expect(!decoder.isComplete)
        #expect(try decode(&decoder, "lloGET") == ("llo", 3))
        #expect(decoder.isComplete)
        #expect(try decode(&decoder, "GET") == ("", 0))
    }

    @Test("An empty body is complete without input")
    func empty() throws {
        var decoder = BodyDecoder(.fixed(0))
        #expect(decoder.isComplete)
        #expect(decoder.remaining == 0)
        #expect(try decode(&decoder, "GET") == ("", 0))
    }

    @Test("A chunked body ends with its trailers and leaves the bytes after them")
    func chunked() throws {
        var decoder = BodyDecoder(.chunked)
        #expect(decoder.remaining == nil)
        let text = "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: u\r\n\r\n"
        #expect(try decode(&decoder, text + "GET") == ("abc0123456789", text.utf8.count))
        #expect(decoder.isComplete)
        #expect(decoder.remaining == 0)
    }

    @Test("Extensions and trailers may have 16 KiB in total, and not a byte more")
    func overhead() throws {
        let limit = 16 * 1024
        // The CR ends the extension and counts as part of it; the empty line's CR counts too.
        var decoder = BodyDecoder(.chunked)
        let extended = "0;" + String(repeating: "x", count: limit - 2) + "\r\n"
        #expect(try decode(&decoder, extended + "\r\n").taken == extended.utf8.count + 2)
        #expect(decoder.isComplete)
        var beyond = BodyDecoder(.chunked)
        let text =
            "0;" + String(repeating: "x", count: limit / 2) + "\r\nT: " + String(repeating: "y", count: limit / 2)
        let error = #expect(throws: ProtocolError.self) { try decode(&beyond, text) }
        #expect(error?.status == .requestHeaderFieldsTooLarge)
    }
}
