import HTTPTypes
import Locking
import Net
import TestSupport
import Testing

@testable import HTTPServer

/// Adds routes whose check needs a key: `/now` is checked at once, `/later` after `gate` has opened.
private func routes(_ gate: Gate = Gate(), _ calls: Locked<Int> = Locked(0)) -> (inout Router) -> Void {
    { router in
        @Sendable func require(_ request: Request) throws {
            guard request[.authorization] == "key" else { throw Problem(.unauthorized, "No.") }
        }
        @Sendable func answer(_ request: Request) -> Response {
            calls.withLock { $0 += 1 }
            return .text("\(request.principal?.keyName ?? "none") \(request.body.count)")
        }
        let now: HeadCheck = { request in
            try require(request)
            request.principal = NamedCaller("7")
            return nil
        }
        router.add(.post, "/now", check: now, bodyLimit: 10, .immediate { answer($0) })
        router.on(.put, "/stream", check: now) { request, body in
            for try await _ in body {}
            return answer(request)
        }
        let later: HeadCheck = { request in
            {
                await gate.wait()
                try require(request)
                request.principal = NamedCaller("8")
            }
        }
        router.on(.post, "/later", check: later) { answer($0) }
        router.add(.get, "/a", .immediate { _ in .text("a") })
    }
}

private func post(_ path: String, _ length: Int, _ fields: String = "Authorization: key\r\n") -> String {
    "POST \(path) HTTP/1.1\r\nHost: a\r\n\(fields)Content-Length: \(length)\r\n\r\n"
}

private let get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"

@Suite("The check of a request's head", .timeLimit(.minutes(1))) struct HeadCheckTests {
    @Test("A request is rejected before its body is sent; a body too large to discard ends the connection")
    func rejected() async throws {
        let calls = Locked(0)
        try await withServer(routes: routes(Gate(), calls)) { server in
            for head in [
                post("/now", 1_000_000, ""), post("/later", 1_000_000, ""),
                "PUT /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n",
            ] {
                let client = try server.connect()
                // This body exceeds the server's limit, so it is refused without the check.
                let isLater = head.hasPrefix("POST /later")
                let answer = try await client.exchange(isLater ? post("/later", 2 << 20, "") : head)
                #expect(answer.status == (isLater ? 413 : 401))
                #expect(answer["connection"] == "close")
                #expect(try await client.receiveToEnd() == "")
            }
            #expect(calls.withLock { $0 } == 0)
        }
    }

    @Test("A small body after a rejection is discarded, and the connection is kept")
    func drained() async throws {
        try await withServer(routes: routes()) { server in
            let client = try server.connect()
            #expect(try await client.exchange(post("/now", 5, "")).status == 401)
            #expect(try await client.exchange("12345" + post("/now", 3) + "123").text == "7 3")
        }
    }

    @Test("A route's body limit applies to the declared length, and to chunks as they arrive")
    func bodyLimit() async throws {
        try await withServer(routes: routes()) { server in
            #expect(try await server.connect().exchange(post("/now", 11)).status == 413)
            let client = try server.connect()
            #expect(try await client.exchange(post("/now", 10) + "0123456789").text == "7 10")
            let head = "POST /now HTTP/1.1\r\nHost: a\r\nAuthorization: key\r\nTransfer-Encoding: chunked\r\n\r\n"
            #expect(try await client.exchange(head + "b\r\n01234567890\r\n").status == 413)
        }
    }

    @Test("The server's limit applies to a route with a larger limit")
    func smallerServer() async throws {
        try await withServer(settings { $0.maximumBodyBytes = 4 }, routes: routes()) { server in
            let client = try server.connect()
            #expect(try await client.exchange(post("/now", 5)).status == 413)
        }
    }

    @Test("100 Continue is sent only after the check has passed", arguments: ["/now", "/later"])
    func continues(path: String) async throws {
        let gate = Gate()
        try await withServer(routes: routes(gate)) { server in
            let refused = try server.connect()
            try await refused.send(post(path, 5, "Expect: 100-continue\r\n"))
            let client = try server.connect()
            try await client.send(post(path, 5, "Authorization: key\r\nExpect: 100-continue\r\n"))
            if path == "/later" {
                for _ in 0..<10 { #expect(try await server.connect().exchange(get).text == "a") }
                #expect(!client.hasInput && !refused.hasInput)
                gate.open()
            }
            #expect(try await refused.receive().status == 401)
            #expect(try await client.receive(until: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
            #expect(try await client.exchange("12345").status == 200)
        }
    }

    @Test("While a check waits, the body is not read or lost and its timeout does not run")
    func slowCheck() async throws {
        let gate = Gate()
        let limits = settings { settings in
            // Long enough for the request's head to arrive, even on a busy machine.
            settings.bodyTimeout = .seconds(2)
            settings.headerTimeout = .seconds(2)
        }
        try await withServer(limits, routes: routes(gate)) { server in
            let client = try server.connect()
            try await client.send(post("/later", 600_000))
            let body = [UInt8](repeating: 0x61, count: 600_000)
            async let sending: Void = client.send(body)
            // The kernel holds a part of the body, and the server at most one read of it.
            try await eventuallyUnread(server)
            // A connection without a request is closed after the header timeout, which here equals the body timeout.
            _ = try await server.connect().receiveToEnd()
            _ = try await server.connect().receiveToEnd()
            #expect(!client.hasInput)
            #expect(server.server.heldBytes <= 64 * 1024)
            gate.open()
            #expect(try await client.receive().text == "8 600000")
            try await sending
            #expect(try await client.exchange(post("/now", 1) + "1").text == "7 1")
        }
    }

    /// Waits until the kernel holds bytes that the server does not read.
    private func eventuallyUnread(_ server: TestServer) async throws {
        try await eventually("10,000 bytes are unread") {
            try ServerSocket.all(port: server.port).contains { $0.unread >= 10_000 }
        }
    }

    @Test("Pipelined requests are answered in order, whether checked at once or later")
    func pipelined() async throws {
        let gate = Gate()
        try await withServer(routes: routes(gate)) { server in
            let client = try server.connect()
            try await client.send(get + post("/later", 2) + "12" + post("/now", 3) + "123" + post("/later", 0) + get)
            #expect(try await client.receive().text == "a")
            gate.open()
            for text in ["8 2", "7 3", "8 0", "a"] { #expect(try await client.receive().text == text) }
        }
    }

    @Test("A waiting check is cancelled when its connection ends")
    func clientGone() async throws {
        let gate = Gate()
        let calls = Locked(0)
        try await withServer(routes: routes(gate, calls)) { server in
            let client = try server.connect()
            try await client.send(post("/later", 0))
            #expect(try await server.connect().exchange(get).text == "a")
            client.resetOnClose()
            _ = consume client
            try await server.waitForConnections(atMost: 0)
            gate.open()
            #expect(try await server.connect().exchange(post("/later", 0)).text == "8 0")
            #expect(calls.withLock { $0 } == 1)
        }
    }
}

@Suite("Memory for bodies", .timeLimit(.minutes(1))) struct BodyBudgetTests {
    /// Adds `POST /echo`, `POST /wait`, whose handler waits for `gate`, and `POST /later`, whose check waits for it.
    private static func routes(_ gate: Gate = Gate()) -> (inout Router) -> Void {
        { router in
            router.on(.post, "/wait") { request in
                await gate.wait()
                return .text("\(request.body.count)")
            }
            let later: HeadCheck = { _ in { await gate.wait() } }
            router.on(.post, "/later", check: later) { .text("\($0.body.count)") }
            router.add(.post, "/echo", .immediate { .text("\($0.body.count)") })
        }
    }

    /// Waits until a server holds `bytes` bytes, not counting the free part of each connection.
    private static func wait(for bytes: Int, in server: TestServer) async throws {
        try await eventually("\(bytes) bytes are held") { server.server.heldBytes == bytes }
    }

    private static func bytes(_ count: Int) -> [UInt8] { [UInt8](repeating: 0x61, count: count) }

    @Test("Connections hold at most the budget: further bodies get 503, small ones are still accepted")
    func bounded() async throws {
        let limits = settings { settings in
            settings.maximumHeldBytes = 4 << 20
            settings.maximumBodyBytes = 1 << 20
        }
        try await withServer(limits, loops: 2, routes: Self.routes()) { server in
            var clients: [RawClient] = []
            for _ in 0..<60 {
                let client = try server.connect()
                try await client.send(post("/echo", 1 << 20, ""))
                clients.append(client)
            }
            // All but the last byte of each, which is fifteen times the budget.
            for client in clients { try? await client.send(Self.bytes(1 << 20 - 1)) }
            var refused: [RawClient] = []
            try await eventually("56 are refused") {
                refused = clients.filter(\.hasInput)
                return refused.count >= 56
            }
            for client in refused {
                let answer = try await client.receive()
                #expect(answer.status == 503)
                #expect(answer["retry-after"] == "1")
                #expect(answer["connection"] == "close")
            }
            #expect(server.server.heldBytes <= 4 << 20)
            let small = try server.connect()
            for _ in 0..<10 {
                #expect(
                    try await small.exchange(post("/echo", 4096) + "\(String(repeating: "a", count: 4096))").text
                        == "4096"
                )
            }
            // The clients within the budget get their responses, and release their share.
            for client in clients where !refused.contains(where: { $0 === client }) {
                #expect(try await client.exchange("a").text == "\(1 << 20)")
            }
            try await Self.wait(for: 0, in: server)
            #expect(try await small.exchange(post("/echo", 9) + "123456789").text == "9")
        }
    }

    @Test("A body is counted until its request is answered or its connection ends")
    func released() async throws {
        let gate = Gate()
        try await withServer(routes: Self.routes(gate)) { server in
            let answered = try server.connect()
            try await answered.send(Array(post("/wait", 100_000).utf8) + Self.bytes(100_000))
            let gone = try server.connect()
            try await gone.send(Array(post("/wait", 100_000).utf8) + Self.bytes(50_000))
            try await Self.wait(for: 150_000 - 2 * BodyBudget.uncountedBytes, in: server)
            gone.resetOnClose()
            _ = consume gone
            try await Self.wait(for: 100_000 - BodyBudget.uncountedBytes, in: server)
            gate.open()
            #expect(try await answered.receive().text == "100000")
            try await Self.wait(for: 0, in: server)
        }
    }

    @Test("A head that exceeds the budget is refused, whatever follows it")
    func head() async throws {
        let limits = settings { settings in
            settings.maximumHeldBytes = 1024
            settings.maximumBodyBytes = 1024
        }
        try await withServer(limits, routes: Self.routes()) { server in
            let client = try server.connect()
            try await client.send("GET / HTTP/1.1\r\nX-A: \(String(repeating: "a", count: 6000))\r\n")
            #expect(try await client.receive().status == 503)
            try? await client.send("x")
            let other = try server.connect()
            #expect(try await other.exchange(post("/echo", 9) + "123456789").text == "9")
            try await Self.wait(for: 0, in: server)
        }
    }

    @Test("Unread input is counted: a request waiting for its check is refused, a running one is the last")
    func sentAhead() async throws {
        let gate = Gate()
        let limits = settings { settings in
            settings.maximumHeldBytes = 1024
            settings.maximumBodyBytes = 1024
        }
        try await withServer(limits, routes: Self.routes(gate)) { server in
            let checked = try server.connect()
            let chunked = "POST /later HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4000\r\n"
            try await checked.send(Array(chunked.utf8) + Self.bytes(0x4000))
            #expect(try await checked.receive().status == 503)
            let ahead = try server.connect()
            try await ahead.send(Array((post("/wait", 1) + "1" + post("/wait", 10_000)).utf8) + Self.bytes(10_000))
            try await server.waitUntilAllIsRead()
            gate.open()
            let answer = try await ahead.receive()
            #expect(answer.text == "1")
            #expect(answer["connection"] == "close")
            try await Self.wait(for: 0, in: server)
        }
    }
}

private struct NamedCaller: Principal {
    let keyName: String?

    init(_ keyName: String) { self.keyName = keyName }
}
