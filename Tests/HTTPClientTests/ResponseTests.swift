import HTTPClient
import HTTPTypes
import Testing

/// What servers answer, and what the caller gets of it.
@Suite struct ResponseTests {
    /// Sends one request to a server that answers each with `answer`.
    private static func response(
        to method: HTTPRequest.Method = .get,
        settings: HTTPClientSettings = HTTPClientSettings(),
        _ answer: String
    ) async throws -> HTTPClientResponse {
        try await withServer(Script.answeringOnce(answer)) { server in
            try await withClient(settings) { client, _ in
                try await client.send(HTTPClientRequest(method: method, url: server.url()))
            }
        }
    }

    private static func code(
        settings: HTTPClientSettings = HTTPClientSettings(),
        _ answer: String
    ) async throws -> HTTPClientError.Code? {
        do {
            _ = try await response(settings: settings, answer)
            return nil
        } catch let error as HTTPClientError {
            return error.code
        }
    }

    @Test("Status, header fields in their order, and body come back as they were sent")
    func plain() async throws {
        let response = try await Self.response(
            """
            HTTP/1.1 418 I am a teapot\r
            Content-Type: application/json;charset=UTF-8\r
            X-Twice: one\r
            x-twice:\ttwo \r
            X-Empty:\r
            Content-Length: 2\r
            \r
            30
            """
        )
        #expect(response.status == 418)
        #expect(response.headerFields[.contentType] == "application/json;charset=UTF-8")
        #expect(try response.headerFields[values: #require(HTTPField.Name("X-Twice"))] == ["one", "two"])
        #expect(try response.headerFields[#require(HTTPField.Name("X-Empty"))] == "")
        #expect(response.body == Array("30".utf8))
    }

    @Test("The chunks of a chunked body are put together, and trailer fields are left out")
    func chunked() async throws {
        let response = try await Self.response(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nHello\r\n7\r\n, world\r\n0\r\nX-Late: 1\r\n\r\n"
        )
        #expect(String(decoding: response.body, as: UTF8.self) == "Hello, world")
        #expect(try response.headerFields[#require(HTTPField.Name("X-Late"))] == nil)
    }

    @Test("A body without a length ends with its connection")
    func untilTheEnd() async throws {
        let response = try await Self.response("HTTP/1.0 200 OK\r\n\r\nall there is")
        #expect(String(decoding: response.body, as: UTF8.self) == "all there is")
    }

    @Test("Interim responses are passed over, with their header fields")
    func interim() async throws {
        let response = try await Self.response(
            """
            HTTP/1.1 100 Continue\r
            \r
            HTTP/1.1 103 Early Hints\r
            Link: </style.css>\r
            \r
            HTTP/1.1 200 OK\r
            Content-Length: 2\r
            \r
            ok
            """
        )
        #expect(response.status == 200)
        #expect(try response.headerFields[#require(HTTPField.Name("Link"))] == nil)
        #expect(response.headerFields[.contentLength] == "2")
    }

    @Test(
        "A response to HEAD, and one of 204 or 304, has no body, whatever its length says",
        arguments: [200, 204, 304]
    )
    func noBody(status: Int) async throws {
        let method: HTTPRequest.Method = status == 200 ? .head : .get
        let length = status == 204 ? "" : "Content-Length: 5\r\n"
        try await withServer(Script.answering("HTTP/1.1 \(status) Said\r\n\(length)\r\n")) { server in
            try await withClient { client, _ in
                for _ in 0..<2 {
                    let response = try await client.send(HTTPClientRequest(method: method, url: server.url()))
                    #expect(response.status == status)
                    #expect(response.body.isEmpty)
                }
            }
            #expect(server.connectionCount == 1)
        }
    }

    @Test("A redirect is a response like any other", arguments: [301, 307])
    func redirect(status: Int) async throws {
        let answer = "HTTP/1.1 \(status) Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
        let response = try await Self.response(answer)
        #expect(response.status == status)
        #expect(response.headerFields[.location] == "http://127.0.0.1:1/")
    }

    @Test("A body is not unpacked: nobody asked for it to be packed")
    func compressed() async throws {
        let response = try await Self.response(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope"
        )
        #expect(String(decoding: response.body, as: UTF8.self) == "nope")
    }

    @Test("A body may be as long as is allowed, and not a byte longer", arguments: [100, 101])
    func bodyLimit(count: Int) async throws {
        let body = String(repeating: "x", count: count)
        let settings = HTTPClientSettings(maximumResponseBytes: 100)
        let expected: HTTPClientError.Code? = count > 100 ? .responseTooLarge : nil
        let known = "HTTP/1.1 200 OK\r\nContent-Length: \(count)\r\n\r\n\(body)"
        #expect(try await Self.code(settings: settings, known) == expected)
        let unknown = "HTTP/1.1 200 OK\r\n\r\n\(body)"
        #expect(try await Self.code(settings: settings, unknown) == expected)
    }

    @Test(
        "A head of too many fields, or of too many bytes, is refused",
        arguments: [(200, 1), (20, 8000), (1, 200_000)]
    )
    func headLimit(count: Int, length: Int) async throws {
        let field = "X-Long: \(String(repeating: "x", count: length))\r\n"
        let answer = "HTTP/1.1 200 OK\r\n\(String(repeating: field, count: count))\r\n"
        #expect(try await Self.code(answer) == .responseTooLarge)
    }

    @Test("Trailer fields without end are refused")
    func trailerLimit() async throws {
        let trailers = String(repeating: "X-Late: \(String(repeating: "x", count: 80))\r\n", count: 1000)
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        #expect(try await Self.code(head + "0\r\n" + trailers + "\r\n") == .responseTooLarge)
    }

    @Test("A field with white space before its colon is none (RFC 9112 §5.1)")
    func spacedName() async throws {
        let response = try await Self.response("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nLocation : /\r\n\r\n")
        #expect(response.headerFields[.location] == nil)
        #expect(response.headerFields[.contentLength] == "0")
    }

    @Test(
        "What is not HTTP/1 is refused",
        arguments: [
            "hello", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 banana\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/9.9 200 OK\r\n\r\n",
        ]
    )
    func garbage(answer: String) async throws {
        #expect(try await Self.code(answer) == .badResponse)
    }

    @Test("An answer that comes before the body is read is an answer")
    func earlyAnswer() async throws {
        let script: @Sendable (RawConnection) -> Void = { connection in
            _ = connection.readHead()
            connection.write("HTTP/1.1 413 Too large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            connection.waitForEnd()
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                let body = [UInt8](repeating: 65, count: 16 * 1024 * 1024)
                #expect(await status(client, HTTPClientRequest(method: .post, url: server.url(), body: body)) == 413)
            }
        }
    }
}
