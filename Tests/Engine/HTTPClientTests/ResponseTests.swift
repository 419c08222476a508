import HTTPClient
import HTTPTypes
import Testing

/// Responses of servers, and their representation for the caller.
@Suite struct ResponseTests {
    /// Sends one request to a server that responds with `answer`, and returns the response.
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

    @Test("Status, header fields in order, and body are returned as sent")
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

    @Test("Chunks are joined and trailer fields are dropped")
    func chunked() async throws {
        let response = try await Self.response(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nHello\r\n7\r\n, world\r\n0\r\nX-Late: 1\r\n\r\n"
        )
        #expect(String(decoding: response.body, as: UTF8.self) == "Hello, world")
        #expect(try response.headerFields[#require(HTTPField.Name("X-Late"))] == nil)
    }

    @Test("A body without a length ends at the end of the connection")
    func untilTheEnd() async throws {
        let response = try await Self.response("HTTP/1.0 200 OK\r\n\r\nall there is")
        #expect(String(decoding: response.body, as: UTF8.self) == "all there is")
    }

    @Test("Interim responses and their header fields are skipped")
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
        "A response to HEAD, or with status 204 or 304, has no body, whatever its Content-Length",
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

    @Test("A redirect is returned, not followed", arguments: [301, 307])
    func redirect(status: Int) async throws {
        let answer = "HTTP/1.1 \(status) Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
        let response = try await Self.response(answer)
        #expect(response.status == status)
        #expect(response.headerFields[.location] == "http://127.0.0.1:1/")
    }

    @Test("A compressed body is not decompressed, because the client does not request compression")
    func compressed() async throws {
        let response = try await Self.response(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope"
        )
        #expect(String(decoding: response.body, as: UTF8.self) == "nope")
    }

    @Test("A body may reach the size limit but not exceed it", arguments: [100, 101])
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
        "A head with too many fields or bytes is rejected",
        arguments: [(200, 1), (20, 8000), (1, 200_000)]
    )
    func headLimit(count: Int, length: Int) async throws {
        let field = "X-Long: \(String(repeating: "x", count: length))\r\n"
        let answer = "HTTP/1.1 200 OK\r\n\(String(repeating: field, count: count))\r\n"
        #expect(try await Self.code(answer) == .responseTooLarge)
    }

    @Test("Endless trailer fields are rejected")
    func trailerLimit() async throws {
        let trailers = String(repeating: "X-Late: \(String(repeating: "x", count: 80))\r\n", count: 1000)
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        #expect(try await Self.code(head + "0\r\n" + trailers + "\r\n") == .responseTooLarge)
    }

    @Test("A field with white space before its colon is ignored (RFC 9112 §5.1)")
    func spacedName() async throws {
        let response = try await Self.response("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nLocation : /\r\n\r\n")
        #expect(response.headerFields[.location] == nil)
        #expect(response.headerFields[.contentLength] == "0")
    }

    @Test(
        "A response that is not HTTP/1 is rejected",
        arguments: [
            "hello", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 banana\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/9.9 200 OK\r\n\r\n",
        ]
    )
    func garbage(answer: String) async throws {
        #expect(try await Self.code(answer) == .badResponse)
    }

    @Test("A response that arrives before the body is sent is returned")
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
