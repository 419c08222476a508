import HTTPClient
import HTTPTypes
import Net
import Testing

/// The bytes of requests on the wire.
@Suite struct RequestTests {
    /// Sends a request and returns it as the server received it.
    private static func asRead(
        settings: HTTPClientSettings = HTTPClientSettings(),
        _ change: (inout HTTPClientRequest) -> Void
    ) async throws -> RawRequest {
        try await withServer(Script.echo) { server in
            var request = HTTPClientRequest(url: server.url("/path?query=1"))
            change(&request)
            let sent = request
            try await withClient(settings) { client, _ in _ = try await client.send(sent) }
            var read = try #require(server.requests.first)
            read.hide(port: server.port)
            return read
        }
    }

    @Test("A POST contains the caller's fields, Host, User-Agent and its length, and nothing else")
    func post() async throws {
        let request = try await Self.asRead(settings: HTTPClientSettings(userAgent: "test/1")) {
            $0.method = .post
            $0.headerFields = [.authorization: "KakaoAK key", .contentType: FormBody.contentType]
            $0.body = Array("a=b".utf8)
        }
        #expect(request.lines.first == "POST /path?query=1 HTTP/1.1")
        #expect(
            Set(request.lines.dropFirst()) == [
                "Host: 127.0.0.1:PORT",
                "User-Agent: test/1",
                "Authorization: KakaoAK key",
                "Content-Type: application/x-www-form-urlencoded;charset=utf-8",
                "Content-Length: 3",
            ]
        )
        #expect(request.bodyText == "a=b")
    }

    @Test("A GET contains only Host and User-Agent besides the caller's fields")
    func get() async throws {
        let request = try await Self.asRead(settings: HTTPClientSettings(userAgent: "test/1")) { _ in }
        #expect(request.lines == ["GET /path?query=1 HTTP/1.1", "Host: 127.0.0.1:PORT", "User-Agent: test/1"])
    }

    @Test("The caller's header fields replace the defaults")
    func replaced() async throws {
        let request = try await Self.asRead {
            $0.headerFields = [.userAgent: "mine", .accept: "application/json"]
        }
        #expect(request.field("User-Agent") == "mine")
        #expect(request.field("Accept") == "application/json")
    }

    @Test(
        "Any method is sent unchanged, with or without a body",
        arguments: [HTTPRequest.Method.get, .post, .put, .patch, .delete, .options],
        [true, false]
    )
    func methods(method: HTTPRequest.Method, hasBody: Bool) async throws {
        let request = try await Self.asRead {
            $0.method = method
            $0.body = hasBody ? Array("body".utf8) : []
        }
        #expect(request.lines.first == "\(method.rawValue) /path?query=1 HTTP/1.1")
        #expect(request.bodyText == (hasBody ? "body" : ""))
        let mustHaveLength = hasBody || [.post, .put, .patch].contains(method)
        #expect(request.field("Content-Length") == (mustHaveLength ? String(hasBody ? 4 : 0) : nil))
        #expect(request.field("Content-Type") == nil)
    }

    @Test("A request does not depend on earlier requests of the same client")
    func sequence() async throws {
        var requests: [HTTPClientRequest] = []
        func add(_ method: HTTPRequest.Method, _ body: String = "", _ fields: HTTPFields = [:]) {
            requests.append(
                HTTPClientRequest(method: method, url: "", headerFields: fields, body: Array(body.utf8))
            )
        }
        for method in [HTTPRequest.Method.get, .post, .head, .put, .delete, .options] {
            add(method)
            if method != .head { add(method, "body of \(method.rawValue)") }
            add(.post, "", [.userAgent: "mine"])
            add(.post, "a=b", [.authorization: "KakaoAK key"])
            add(method)
        }
        let sent = requests
        try await withServer(Script.echo) { server in
            func send(_ index: Int, _ client: HTTPClient) async throws {
                var request = sent[index]
                request.url = server.url("/\(index)")
                _ = try await client.send(request)
            }
            try await withClient { client, _ in
                for index in sent.indices { try await send(index, client) }
            }
            for index in sent.indices { try await withClient { client, _ in try await send(index, client) } }
            let read = server.requests
            try #require(read.count == 2 * sent.count)
            for index in sent.indices {
                #expect(read[index].lines == read[sent.count + index].lines)
                #expect(read[index].bodyText == read[sent.count + index].bodyText)
            }
        }
    }

    @Test("A large body is sent completely, without Expect: 100-continue")
    func largeBody() async throws {
        let body = (0..<3 * 1024 * 1024).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 8) }
        let request = try await Self.asRead {
            $0.method = .post
            $0.body = body
        }
        #expect(request.body == body)
        #expect(request.field("Expect") == nil)
    }

    @Test("A path is sent unchanged, including dot segments")
    func path() async throws {
        let request = try await Self.asRead { $0.url = $0.url.replacing("/path", with: "/a/../b/./%2e%C3%A9") }
        #expect(request.lines.first == "GET /a/../b/./%2e%C3%A9?query=1 HTTP/1.1")
    }

    @Test("A line end in a header value cannot inject a header field")
    func lineEnds() async throws {
        let name = try #require(HTTPField.Name("X-Text"))
        let request = try await Self.asRead {
            $0.headerFields[name] = "one\r\nInjected: two"
            $0.headerFields[.accept] = ""
        }
        #expect(request.field("Injected") == nil)
        #expect(request.lines.contains("Accept:"))
        #expect(request.lines.filter { $0.hasPrefix("X-Text") }.count == 1)
    }

    @Test(
        "An invalid or unsupported URL is rejected",
        arguments: [
            "", "/path", "http:", "http://", "https:///path", "ftp://127.0.0.1/", "file:///etc/passwd", "//127.0.0.1/",
            "http://127.0.0.1/a b", "http://127.0.0.1/\r\nInjected: 1", "http://127.0.0.1/\0", "http://127.0.0.1/é",
            "http://user@127.0.0.1/", "http://user:password@127.0.0.1/", "http://127.0.0.1:99999/",
            "http://127.0.0.1:port/",
        ]
    )
    func invalidURL(url: String) async throws {
        try await withClient { client, _ in
            let error = await failure(client, HTTPClientRequest(method: .post, url: url, body: [65]))
            #expect(error?.code == .invalidRequest)
            #expect(error?.mayHaveBeenSent == false)
            #expect(error?.message.contains("password") == false)
        }
    }

    @Test(
        "Header fields that frame a message are rejected",
        arguments: ["Content-Length", "transfer-encoding", "Expect"]
    )
    func framing(name: String) async throws {
        let name = try #require(HTTPField.Name(name))
        try await withClient { client, _ in
            let request = HTTPClientRequest(
                method: .post,
                url: "http://127.0.0.1:1/",
                headerFields: [name: "1"],
                body: [65]
            )
            #expect(await failure(client, request)?.code == .invalidRequest)
        }
    }

    @Test("HEAD with a body and CONNECT are rejected")
    func invalidMethods() async throws {
        try await withClient { client, _ in
            let head = HTTPClientRequest(method: .head, url: "http://127.0.0.1:1/", body: [65])
            #expect(await failure(client, head)?.code == .invalidRequest)
            let connect = HTTPClientRequest(method: .connect, url: "http://127.0.0.1:1/")
            #expect(await failure(client, connect)?.code == .invalidRequest)
        }
    }

    @Test("A reused connection keeps nothing of the previous request")
    func nothingRemembered() async throws {
        try await withServer(Script.echo) { server in
            try await withClient { client, _ in
                let first = HTTPClientRequest(
                    method: .delete,
                    url: server.url(),
                    headerFields: [.authorization: "secret"],
                    body: Array("body".utf8)
                )
                _ = try await client.send(first)
                _ = try await client.send(HTTPClientRequest(method: .head, url: server.url()))
                _ = try await client.send(HTTPClientRequest(url: server.url()))
                _ = try await client.send(HTTPClientRequest(method: .post, url: server.url(), body: [65]))
            }
            #expect(
                server.requests.map { $0.lines.first } == ["DELETE", "HEAD", "GET", "POST"].map { "\($0) / HTTP/1.1" }
            )
            #expect(server.requests.map(\.bodyText) == ["body", "", "", "A"])
            #expect(server.requests.map { $0.field("Authorization") } == ["secret", nil, nil, nil])
        }
    }
}

extension RawRequest {
    /// Replaces the port, which differs in each run, with `PORT`.
    fileprivate mutating func hide(port: UInt16) {
        self = RawRequest(head: head.replacing(":\(port)", with: ":PORT"), body: body)
    }
}
