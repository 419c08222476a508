import HTTPTypes
import Testing

@testable import HTTPServer

@Suite("Serialized responses")
struct ResponseEncoderTests {
    private let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-Content-Type-Options: nosniff\r\n"

    private func encode(
        _ response: Response,
        omitsBody: Bool = false,
        closes: Bool = false,
        saysKeepAlive: Bool = false,
        isChunked: Bool = false
    ) throws -> String {
        let encoder = ResponseEncoder()
        var output = Array("before|".utf8)
        let ending = ResponseEncoder.Ending(
            omitsBody: omitsBody,
            closes: closes,
            saysKeepAlive: saysKeepAlive,
            isChunked: isChunked
        )
        let id = try #require(RequestID(Array("id-1".utf8)[...]))
        encoder.encode(response, ending: ending, requestID: id, unixSeconds: 784_111_777, into: &output)
        return String(decoding: output, as: UTF8.self)
    }

    @Test("A response is appended as status line, Date, fields, length, empty line and body")
    func whole() throws {
        #expect(
            try encode(.text("hello")) == "before|HTTP/1.1 200 OK\r\n\(date)Content-Type: text/plain;charset=UTF-8\r\n"
                + "X-Request-Id: id-1\r\nContent-Length: 5\r\n\r\nhello"
        )
    }

    @Test("The response to HEAD has a length and no body")
    func head() throws {
        #expect(
            try encode(Response(.ok, body: Array("hello".utf8)), omitsBody: true)
                == "before|HTTP/1.1 200 OK\r\n\(date)X-Request-Id: id-1\r\nContent-Length: 5\r\n\r\n"
        )
    }

    @Test("204 and 304 have neither length nor body", arguments: [204, 304])
    func withoutBody(code: Int) throws {
        let response = Response(HTTPResponse.Status(code: code), body: [1, 2, 3])
        let phrase = code == 204 ? "No Content" : "Not Modified"
        #expect(try encode(response) == "before|HTTP/1.1 \(code) \(phrase)\r\n\(date)X-Request-Id: id-1\r\n\r\n")
    }

    @Test(
        "Each status line has a reason phrase, also that of a status which is only a number",
        arguments: [
            (200, "OK"), (202, "Accepted"), (401, "Unauthorized"), (422, "Unprocessable Content"),
            (429, "Too Many Requests"),
            (503, "Service Unavailable"), (507, "Insufficient Storage"),
            // Unregistered.
            (299, "Successful"), (499, "Client Error"), (599, "Server Error"), (999, "Unknown"),
        ]
    )
    func reasonPhrase(code: Int, phrase: String) throws {
        let line = "before|HTTP/1.1 \(code) \(phrase)\r\nDate: "
        #expect(try encode(Response(HTTPResponse.Status(code: code))).hasPrefix(line))
        // The number decides, so that alternating forms of a status share their opening.
        #expect(try encode(Response(HTTPResponse.Status(code: code, reasonPhrase: "Nothing"))).hasPrefix(line))
    }

    @Test("An encoder changes the status line with the status")
    func changingStatus() throws {
        let encoder = ResponseEncoder()
        let id = try #require(RequestID(Array("id-1".utf8)[...]))
        for (code, phrase) in [(200, "OK"), (404, "Not Found"), (404, "Not Found"), (200, "OK")] {
            var output: [UInt8] = []
            let response = Response(HTTPResponse.Status(code: code))
            encoder.encode(response, ending: .init(), requestID: id, unixSeconds: 784_111_777, into: &output)
            #expect(String(decoding: output, as: UTF8.self).hasPrefix("HTTP/1.1 \(code) \(phrase)\r\n"))
        }
    }

    @Test("A streamed body has no length, and Transfer-Encoding if it is chunked")
    func pieces() throws {
        let response = Response(.ok) { _ in }
        let head = "before|HTTP/1.1 200 OK\r\n\(date)X-Request-Id: id-1\r\n"
        #expect(try encode(response) == head + "\r\n")
        #expect(try encode(response, isChunked: true) == head + "Transfer-Encoding: chunked\r\n\r\n")
        var chunk = Array("before|".utf8)
        ResponseEncoder.append(chunk: [UInt8](repeating: 0x61, count: 26), to: &chunk)
        #expect(String(decoding: chunk, as: UTF8.self) == "before|1a\r\naaaaaaaaaaaaaaaaaaaaaaaaaa\r\n")
    }

    @Test("An empty body has Content-Length 0")
    func empty() throws {
        #expect(try encode(Response(.ok)).hasSuffix("Content-Length: 0\r\n\r\n"))
    }

    @Test("Connection says close, or keep-alive to an HTTP/1.0 client")
    func connection() throws {
        #expect(try encode(Response(.ok), closes: true).contains("\r\nConnection: close\r\n"))
        #expect(try encode(Response(.ok), saysKeepAlive: true).contains("\r\nConnection: keep-alive\r\n"))
        #expect(try !encode(Response(.ok)).contains("Connection"))
    }

    @Test("A line end in a field value cannot inject another header field")
    func injection() throws {
        let fields: HTTPFields = [.location: "/a\r\nSet-Cookie: x\r\n\r\nbody"]
        let text = try encode(Response(.ok, headerFields: fields))
        #expect(!text.contains("\r\nSet-Cookie"))
        #expect(text.components("\r\n\r\n") == 2)
    }

    @Test("Date is updated with the clock")
    func dates() throws {
        let encoder = ResponseEncoder()
        let ending = ResponseEncoder.Ending()
        var output: [UInt8] = []
        encoder.encode(Response(.ok), ending: ending, requestID: RequestID(), unixSeconds: 0, into: &output)
        encoder.encode(Response(.ok), ending: ending, requestID: RequestID(), unixSeconds: 1, into: &output)
        let text = String(decoding: output, as: UTF8.self)
        #expect(text.contains("01 Jan 1970 00:00:00 GMT"))
        #expect(text.contains("01 Jan 1970 00:00:01 GMT"))
    }
}

extension String {
    /// Returns the number of parts between occurrences of `separator`.
    fileprivate func components(_ separator: String) -> Int {
        var (count, rest) = (1, self[...])
        while let range = rest.firstRange(of: separator) {
            count += 1
            rest = rest[range.upperBound...]
        }
        return count
    }
}
