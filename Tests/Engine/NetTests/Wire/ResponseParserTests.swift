import Testing

@testable import Net

/// The parser of responses, byte by byte.
@Suite struct ResponseParserTests {
    private struct Reading: Equatable {
        var state: ResponseParser.State
        var status: Int
        var body: String
        var keepsConnection: Bool
        /// The number of bytes after the end of the response.
        var rest: Int
    }

    /// Parses a response in pieces of `size` bytes.
    private static func read(
        _ text: String,
        in size: Int,
        endsAfterHead: Bool = false,
        limit: Int = 1000,
        truncates: Bool = false
    ) -> Reading {
        var parser = ResponseParser(endsAfterHead: endsAfterHead, maximumBodyBytes: limit, truncatesBody: truncates)
        let bytes = Array(text.utf8)
        var position = 0
        while position < bytes.count {
            let part = bytes[position..<min(position + size, bytes.count)]
            let taken = part.withUnsafeBytes { parser.receive($0) }
            position += taken
            if taken < part.count { break }
        }
        return Reading(
            state: parser.state,
            status: parser.head?.status ?? 0,
            body: String(decoding: parser.body, as: UTF8.self),
            keepsConnection: parser.keepsConnection,
            rest: bytes.count - position
        )
    }

    @Test("The size of the pieces does not affect parsing, and bytes after the end are not consumed", arguments: 1...80)
    func pieces(size: Int) {
        let length = Self.read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 500", in: size)
        #expect(length == Reading(state: .complete, status: 200, body: "hello", keepsConnection: true, rest: 12))
        let chunks = Self.read(
            "HTTP/1.1 100 Continue\r\nX: 1\r\n\r\nHTTP/1.1 201 Made\r\nTransfer-Encoding: Chunked\r\n\r\n"
                + "5;name=\"value\"\r\nhello\r\n0A\r\n, world! 1\r\n0\r\nLate: 1\r\n\r\nmore",
            in: size
        )
        #expect(
            chunks == Reading(state: .complete, status: 201, body: "hello, world! 1", keepsConnection: true, rest: 4)
        )
        let bare = Self.read("HTTP/1.1 200\nContent-Length: 2\nConnection: x, CLOSE\n\nok", in: size)
        #expect(bare == Reading(state: .complete, status: 200, body: "ok", keepsConnection: false, rest: 0))
    }

    @Test("A body that is cut off has the maximum length, and its connection is not used again", arguments: 1...60)
    func truncation(size: Int) {
        for head in ["Content-Length: 11", "Transfer-Encoding: chunked", "X: 1"] {
            let isChunked = head.hasPrefix("T")
            let body = isChunked ? "3\r\nhel\r\n8\r\nlo world\r\n0\r\n\r\n" : "hello world"
            let text = "HTTP/1.1 200 OK\r\n\(head)\r\n\r\n\(body)"
            let cut = Self.read(text, in: size, limit: 5, truncates: true)
            #expect(cut.state == .complete && cut.status == 200 && cut.body == "hello", "\(head)")
            #expect(!cut.keepsConnection)
            #expect(Self.read(text, in: size, limit: 5).state == .failed(.tooLarge))
            let whole = Self.read(text, in: size, limit: 11, truncates: true)
            #expect(whole.body == "hello world" && whole.keepsConnection == (head != "X: 1"))
        }
    }

    @Test("The end of the connection completes only a response without a declared length")
    func end() {
        var parser = ResponseParser(endsAfterHead: false, maximumBodyBytes: 10)
        _ = Array("HTTP/1.1 200 OK\r\n\r\nall".utf8).withUnsafeBytes { parser.receive($0) }
        #expect(parser.state == .bodyUntilEnd)
        #expect(!parser.keepsConnection)
        let isWhole = parser.receiveEnd()
        #expect(isWhole)
        for text in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1"] {
            var parser = ResponseParser(endsAfterHead: false, maximumBodyBytes: 10)
            _ = Array(text.utf8).withUnsafeBytes { parser.receive($0) }
            let isWhole = parser.receiveEnd()
            #expect(!isWhole)
        }
    }

    @Test(
        "Keep-alive is determined by version, Connection and framing (RFC 9112 §9.3)",
        arguments: [
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n", true),
            // Contradictory framing: an intermediary may have used the other length (RFC 9112 §6.3).
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false),
            ("HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n", true),
        ]
    )
    func keeping(text: String, keeps: Bool) {
        let reading = Self.read(text, in: 1000)
        #expect(reading.state == .complete)
        #expect(reading.keepsConnection == keeps)
    }

    @Test(
        "A contradictory or malformed response is rejected",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 099 Low\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n",
            "\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", "<html>",
        ]
    )
    func refused(text: String) {
        for size in [1, 3, 1000] {
            guard case .failed(.malformed) = Self.read(text, in: size).state else {
                Issue.record("\(text) was accepted in pieces of \(size)")
                continue
            }
        }
    }

    @Test("A chunk with a very large size is rejected before it is received")
    func longChunk() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        #expect(
            Self.read(head + "fffffffffffff\r\n" + String(repeating: "x", count: 1001), in: 1500).state
                == .failed(.tooLarge)
        )
    }
}
