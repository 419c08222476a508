import Testing

@testable import HTTPServer

@Suite("Accepted requests", .timeLimit(.minutes(1)))
struct AcceptedRequestTests {
    struct Conversation: CustomTestStringConvertible {
        let testDescription: String
        let bytes: String
        let events: [String]

        init(_ name: String, _ bytes: String, _ events: String...) {
            testDescription = name
            self.bytes = bytes
            self.events = events
        }
    }

    static let host = "HTTP/1.1\r\nHost: a\r\n"

    static let conversations = [
        Conversation("no body", "GET /a \(host)\r\n", "GET /a"),
        Conversation("an empty line before the request", "\r\nGET /a \(host)\r\n", "GET /a"),
        Conversation("a body of known length", "POST /a \(host)Content-Length: 5\r\n\r\nhello", "POST /a hello"),
        Conversation(
            "a length with leading zeros",
            "POST /a \(host)Content-Length: 005\r\n\r\nhello",
            "POST /a hello"
        ),
        Conversation("an empty body", "POST /a \(host)Content-Length: 0\r\n\r\n", "POST /a"),
        Conversation(
            "chunks",
            "POST /a \(host)Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n00a\r\n, wide wor\r\n2\r\nld\r\n0\r\n\r\n",
            "POST /a hello, wide world"
        ),
        Conversation(
            "chunks with extensions and trailers",
            "POST /a \(host)Transfer-Encoding: CHUNKED\r\n\r\n3;a=\"b c\"\r\nabc\r\n000;x\r\nTrailer: t\r\nB:\r\n\r\n",
            "POST /a abc"
        ),
        Conversation("no chunks", "POST /a \(host)Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "POST /a"),
        Conversation(
            "a client that expects 100 Continue",
            "POST /a \(host)Expect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
            "100",
            "POST /a ok"
        ),
        Conversation(
            "a client that expects 100 Continue without a body",
            "GET /a \(host)Expect: 100-continue\r\n\r\n",
            "GET /a"
        ),
        Conversation(
            "HTTP/1.0, which has no 100 Continue",
            "POST /a HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
            "POST /a ok",
            "linger"
        ),
        Conversation("a last request", "GET /a \(host)Connection: close\r\n\r\nGET /b \(host)\r\n", "GET /a", "linger"),
        Conversation(
            "every method",
            ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS"]
                .map { "\($0) / \(host)\r\n" }.joined(),
            "GET /",
            "POST /",
            "PUT /",
            "DELETE /",
            "HEAD /",
            "PATCH /",
            "OPTIONS /"
        ),
        Conversation("asterisk form", "OPTIONS * \(host)\r\n", "OPTIONS *"),
        Conversation("absolute form", "GET http://h.example:80/a?b \(host)\r\n", "GET /a?b"),
        Conversation("absolute form without a path", "GET http://h.example \(host)\r\n", "GET /"),
        Conversation("absolute form with only a query", "GET http://h.example?b \(host)\r\n", "GET /?b"),
        Conversation("IPv6", "GET http://[2001:db8::1]:8080/a HTTP/1.1\r\nHost: [2001:db8::1]\r\n\r\n", "GET /a"),
        Conversation("bytes above 127 in a value", "GET /a \(host)X: 카카오\r\n\r\n", "GET /a"),
        Conversation(
            "pipelined requests of all kinds, one with a request in its body",
            "GET /a \(host)\r\n"
                + "POST /b \(host)Content-Length: 31\r\n\r\nGET /x HTTP/1.1\r\nHost: evil\r\n\r\n"
                + "POST /c?d=e \(host)Transfer-Encoding: chunked\r\n\r\n1\r\n0\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n"
                + "\r\nGET /f HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
                + "DELETE /g \(host)\r\n",
            "GET /a",
            "POST /b GET /x HTTP/1.1\r\nHost: evil\r\n\r\n",
            "POST /c?d=e 0\r\n\r\n",
            "GET /f",
            "DELETE /g"
        ),
        Conversation(
            "valid requests before an invalid one, and nothing after it",
            "GET /a \(host)\r\nGET /b \(host)\r\nGET /c\r\n\r\nGET /d \(host)\r\n",
            "GET /a",
            "GET /b",
            "400",
            "linger"
        ),
    ]

    @Test("The offset at which the bytes are cut does not change the requests", arguments: conversations)
    func requests(conversation: Conversation) {
        let outcomes = Set(deliveries(of: Array(conversation.bytes.utf8)).map { Dialogue.events($0) })
        #expect(outcomes == [conversation.events])
    }
}
