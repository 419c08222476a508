import HTTPTypes
import Net
import Testing

@testable import HTTPServer

private func routes(_ router: inout Router) {
    router.add(.get, "/a", .immediate { _ in .text("a") })
    router.add(.get, "/task", .task { _ in await pausing { .text("task") } })
    router.add(.post, "/echo", .immediate { Response(.ok, body: $0.body) })
    router.add(.post, "/echo/task", .task { request in await pausing { Response(.ok, body: request.body) } })
    router.add(
        .get,
        "/path/{first}/{second}",
        .immediate { request in
            .text(["first", "second", "third"].map { "\($0)=\(request.pathParameter($0))" }.joined(separator: " "))
        }
    )
    router.add(
        .get,
        "/query",
        .immediate { request in
            .text(try request.queryItems().map { "\($0.name)=\($0.value)" }.joined(separator: " "))
        }
    )
}

/// Suspends before it returns the response, like a handler that queries a database.
private func pausing(_ body: () -> Response) async -> Response {
    await Task.yield()
    return body()
}

private func get(_ target: String, _ fields: String = "") -> String {
    "GET \(target) HTTP/1.1\r\nHost: a\r\n\(fields)\r\n"
}

@Suite("Requests over a socket", .timeLimit(.minutes(1)))
struct ExchangeTests {
    @Test("A connection serves one request after another", arguments: ["/a", "/task"])
    func keepAlive(path: String) async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            for _ in 0..<20 {
                let answer = try await client.exchange(get(path))
                #expect(answer.status == 200)
                #expect(answer.text == path.dropFirst())
                #expect(answer["connection"] == nil)
            }
        }
    }

    @Test("Connection: close is honoured and confirmed")
    func close() async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            let answer = try await client.exchange(get("/a", "Connection: close\r\n"))
            #expect(answer["connection"] == "close")
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("An HTTP/1.0 connection is closed after its response, unless the client requests keep-alive")
    func http10() async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            let kept = try await client.exchange("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            #expect(kept["connection"] == "keep-alive")
            let last = try await client.exchange("GET /a HTTP/1.0\r\n\r\n")
            #expect(last["connection"] == "close")
            #expect(last.text == "a")
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("Pipelined requests are answered in order, whether their handlers suspend or not")
    func pipelining() async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            var requests = ""
            for index in 0..<200 {
                let path = index % 3 == 0 ? "/echo/task" : "/echo"
                let body = "request \(index)"
                requests += "POST \(path) HTTP/1.1\r\nHost: a\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
            }
            try await client.send(requests)
            for index in 0..<200 {
                #expect(try await client.receive().text == "request \(index)")
            }
        }
    }

    @Test("A peer that closes its side after pipelined requests still gets every response", arguments: ["/a", "/task"])
    func halfClose(path: String) async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            try await client.send(String(repeating: get(path), count: 50))
            client.shutdownWrite()
            for _ in 0..<50 {
                #expect(try await client.receive().text == path.dropFirst())
            }
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("HEAD gets the response of GET without the body")
    func head() async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            try await client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n")
            let answer = try await client.receive(isHead: true)
            #expect(answer.status == 200)
            #expect(answer["content-length"] == "1")
            try await client.send("HEAD /nothing HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.receive(isHead: true).status == 404)
            #expect(try await client.exchange(get("/a")).text == "a")
        }
    }

    @Test("An unknown path gives 404, an unknown method 405 with Allow, and OPTIONS returns Allow")
    func unrouted() async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            let missing = try await client.exchange(get("/nothing"))
            #expect(missing.status == 404)
            #expect(missing["content-type"] == "application/problem+json")
            let wrong = try await client.exchange("DELETE /a HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(wrong.status == 405)
            #expect(wrong["allow"] == "GET, HEAD")
            let options = try await client.exchange("OPTIONS /a HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(options.status == 204)
            #expect(options["allow"] == "GET, HEAD")
            #expect(try await client.exchange("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").status == 204)
        }
    }

    @Test("Path parameters and queries reach the handler decoded")
    func parameters() async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            let path = try await client.exchange(get("/path/a%2Fb+c/%EC%B9%B4"))
            #expect(path.text == "first=a/b+c second=카 third=")
            #expect(try await client.exchange(get("/path/a/%ff")).status == 400)
            #expect(try await client.exchange(get("/path/a/")).status == 404)
            #expect(try await client.exchange(get("/query?a=1&b=x+y%26")).text == "a=1 b=x y&")
            let bad = try await client.exchange(get("/query?a=%"))
            #expect(bad.status == 400)
            #expect(bad.text.contains("A % is not followed by two hexadecimal digits."))
        }
    }

    @Test("Fixed and chunked bodies reach the handler complete, in any number of pieces")
    func bodies() async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            try await client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            for piece in ["3\r\nab", "c\r", "\n4\r\ndefg\r\n", "0", "\r\n\r\n"] {
                try await client.send(piece)
            }
            #expect(try await client.receive().text == "abcdefg")
            let large = patternedBytes(900_000)
            try await client.send("POST /echo/task HTTP/1.1\r\nHost: a\r\nContent-Length: \(large.count)\r\n\r\n")
            try await client.send(large)
            #expect(try await client.receive().body == large)
        }
    }

    @Test("A client that expects 100 Continue gets it, and the response after its body")
    func expectation() async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            try await client.send("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
            #expect(try await client.receive().status == 100)
            #expect(try await client.exchange("hello").text == "hello")
            // A refused client does not get 100 Continue, and its connection is closed.
            let head = "POST /no HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
            let refused = try await client.exchange(head)
            #expect(refused.status == 404)
            #expect(refused["connection"] == "close")
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("An unread body is discarded and not parsed as the next request")
    func unwantedBody() async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            let body = get("/a")
            let post = "POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
            let refused = try await client.exchange(post)
            #expect(refused.status == 404)
            try await client.send(body + get("/task"))
            #expect(try await client.receive().text == "task")
            try await client.send(post + body)
            client.shutdownWrite()
            #expect(try await client.receive().status == 404)
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("Malformed bytes get a problem response, and the connection is closed")
    func malformed() async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            try await client.send(get("/a") + "NONSENSE\r\n\r\n" + get("/a"))
            #expect(try await client.receive().text == "a")
            let refused = try await client.receive()
            #expect(refused.status == 400)
            #expect(refused["connection"] == "close")
            #expect(refused["content-type"] == "application/problem+json")
            #expect(refused.text.contains("\"code\":-2"))
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("Connections on several loops are all served")
    func severalLoops() async throws {
        try await withServer(loops: 3, routes: routes) { server in
            for _ in 0..<30 {
                let client = try server.connect()
                #expect(try await client.exchange(get("/task")).text == "task")
            }
        }
    }

    @Test("A request has its client's address")
    func remote() async throws {
        func routes(_ router: inout Router) {
            router.add(.get, "/remote", .immediate { .text("\($0.remoteAddress.host) \($0.isSecure)") })
        }
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            #expect(try await client.exchange(get("/remote")).text == "127.0.0.1 false")
        }
    }

    @Test("A server's port is not shared with a second server")
    func portInUse() async throws {
        try await withServer { server in
            let taken = settings { $0.port = server.port }
            await #expect(throws: (any Error).self) { try await withServer(taken) { _ in } }
        }
    }
}
