import HTTPTypes
import Testing

@testable import Net

@Suite("Request heads", .timeLimit(.minutes(1)))
struct RequestHeadParserTests {
    static let heads = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\nGET /v1/push/tokens?uuid=1&x=%20 HTTP/1.1\r\nHost: push.example.com:8080\r\nAccept: */*\r\n\r\n",
        "POST /v1/push/register HTTP/1.1\r\nhost:[::1]:80\r\nContent-Length:\t12 \r\nEXPECT: 100-Continue\r\n\r\n",
        "PUT http://host.example/audiences/all?x HTTP/1.1\r\nHost: host.example\r\nTransfer-Encoding: Chunked\r\n\r\n",
        "OPTIONS * HTTP/1.0\r\n\r\n",
    ]

    private func parse(_ bytes: some Collection<UInt8>, _ limits: HeadLimits = HeadLimits()) throws -> RequestHead? {
        var parser = RequestHeadParser(limits: limits)
        return try Array(bytes).withUnsafeBytes { try parser.parse($0)?.head }
    }

    @Test("A prefix of a head is neither accepted nor refused", arguments: heads)
    func prefixes(text: String) throws {
        let bytes = Array(text.utf8)
        for length in 0..<bytes.count {
            #expect(try parse(bytes[..<length]) == nil)
        }
        #expect(try parse(bytes) != nil)
    }

    @Test("A head is parsed equally byte by byte and at once", arguments: heads)
    func byteByByte(text: String) throws {
        let bytes = Array(text.utf8)
        var parser = RequestHeadParser(limits: HeadLimits())
        for length in 0..<bytes.count {
            #expect(try bytes[..<length].withUnsafeBytes { try parser.parse($0) } == nil)
        }
        let (head, length) = try #require(try bytes.withUnsafeBytes { try parser.parse($0) })
        let whole = try #require(try parse(bytes))
        #expect(length == bytes.count)
        #expect(head.bytes == whole.bytes)
        #expect(head.pathRange == whole.pathRange)
        #expect(head.queryRange == whole.queryRange)
        #expect(head.framing == whole.framing)
        #expect(head.headerFields == whole.headerFields)
    }

    @Test("The parser returns the head's length and ignores bytes after it")
    func length() throws {
        let text = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
        var parser = RequestHeadParser(limits: HeadLimits())
        let parsed = try Array((text + "GET /b HT").utf8).withUnsafeBytes { try parser.parse($0) }
        #expect(parsed?.length == text.utf8.count)
    }

    @Test("Path and query are those of the target, as sent")
    func target() throws {
        let head = try #require(try parse("GET /a%2Fb;c?x=1?&y HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
        #expect(head.path == "/a%2Fb;c")
        #expect(head.query.elementsEqual("x=1?&y".utf8))
        let absolute = try #require(try parse("GET https://h:1/p?q HTTP/1.1\r\nHost: h\r\n\r\n".utf8))
        #expect(absolute.path == "/p")
        #expect(absolute.query.elementsEqual("q".utf8))
        let bare = try #require(try parse("GET /? HTTP/1.1\r\nHost: h\r\n\r\n".utf8))
        #expect(bare.path == "/")
        #expect(bare.query.isEmpty)
    }

    @Test("Fields are found in any case, values are trimmed, and fields with one name are joined")
    func fields() throws {
        let text = "GET / HTTP/1.1\r\nHost: a\r\nX-Key: \t v w \t\r\nACCEPT:b\r\naccept: c\r\nEmpty:\r\n\r\n"
        let head = try #require(try parse(text.utf8))
        let key = try #require(HTTPField.Name("x-key"))
        let empty = try #require(HTTPField.Name("Empty"))
        #expect(head[key] == "v w")
        #expect(head[.accept] == "b, c")
        #expect(head[empty] == "")
        #expect(head[.authorization] == nil)
        #expect(head.headerFields.count == 5)
    }

    @Test(
        "HTTP/1.1 keeps the connection unless it says close, HTTP/1.0 only if it says keep-alive",
        arguments: [
            ("1.1", "", true), ("1.1", "Connection: close\r\n", false), ("1.1", "Connection: Keep-Alive\r\n", true),
            ("1.1", "Connection: te , CLOSE\r\n", false), ("1.1", "Connection: closed\r\n", true),
            ("1.1", "Connection: te\r\nConnection: close\r\n", false), ("1.0", "", false),
            ("1.0", "Connection: keep-alive\r\n", true), ("1.0", "Connection: keep-alive, close\r\n", false),
        ]
    )
    func keepAlive(version: String, field: String, keepsAlive: Bool) throws {
        let head = try parse("GET / HTTP/\(version)\r\nHost: a\r\n\(field)\r\n".utf8)
        #expect(head?.keepsAlive == keepsAlive)
    }

    @Test("The length limit of a head is exact, and a longer head is refused before it is complete")
    func headerLimit() throws {
        let text = "GET / HTTP/1.1\r\nHost: a\r\nX: 12345678\r\n\r\n"
        var limits = HeadLimits()
        limits.headerBytes = text.utf8.count
        #expect(try parse(text.utf8, limits) != nil)
        limits.headerBytes -= 1
        let tooLarge = ProtocolError(
            .requestHeaderFieldsTooLarge,
            "The header section is larger than \(limits.headerBytes) bytes."
        )
        #expect(throws: tooLarge) { try parse(text.utf8, limits) }
        #expect(throws: tooLarge) {
            try parse("GET / HTTP/1.1\r\nX: \(String(repeating: "a", count: 40))".utf8, limits)
        }
    }
}
