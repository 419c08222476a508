import EventLoop
import Glibc
import HTTPTypes
import Logging
import Net
import TestSupport
import Testing

@testable import HTTPServer

private let get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"

private func routes(_ router: inout Router) {
    router.add(.get, "/a", .immediate { _ in .text("a") })
    router.add(.post, "/echo", .immediate { Response(.ok, body: $0.body) })
}

private let kakao = "GET /kakao HTTP/1.1\r\nHost: a\r\n\r\n"

/// Adds a route whose check exempts the connection.
private func exempting(_ router: inout Router) {
    routes(&router)
    router.add(
        .get,
        "/kakao",
        check: { request in
            request.exemptsConnection = true
            return nil
        },
        .immediate { _ in .text("kakao") }
    )
}

@Suite("Limits", .timeLimit(.minutes(5)))
struct LimitTests {
    @Test("A body one byte over the limit is refused before it is received")
    func announcedBody() async throws {
        try await withServer(settings { $0.maximumBodyBytes = 10 }, routes: routes) { server in
            let client = try server.connect()
            let largest = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789"
            #expect(try await client.exchange(largest).text == "0123456789")
            let refused = try await client.exchange("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n")
            #expect(refused.status == 413)
            #expect(refused["connection"] == "close")
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("A chunked body is refused as soon as it exceeds the limit")
    func chunkedBody() async throws {
        try await withServer(settings { $0.maximumBodyBytes = 10 }, routes: routes) { server in
            let client = try server.connect()
            try await client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            try await client.send("8\r\n01234567\r\n")
            #expect(try await client.exchange("8\r\n012").status == 413)
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("A refusal reaches a client that is still sending its body")
    func refusalWhileSending() async throws {
        try await withServer(settings { $0.maximumBodyBytes = 10 }, routes: routes) { server in
            let client = try server.connect()
            try await client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n")
            try await client.send([UInt8](repeating: 0x61, count: 500_000))
            #expect(try await client.receive().status == 413)
            #expect(try await client.receiveToEnd() == "")
        }
    }

    private static let begun = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1"

    @Test("Connections beyond the limit wait while none is idle, and are served when others end", arguments: [1, 2])
    func connections(loops: Int) async throws {
        try await withServer(settings { $0.maximumConnections = 2 }, loops: loops, routes: routes) { server in
            var served: [RawClient] = []
            for _ in 0..<2 {
                let client = try server.connect()
                #expect(try await client.exchange(get).text == "a")
                try await client.send(Self.begun)
                served.append(client)
            }
            try await server.waitUntilAllIsRead()
            let waiting = try server.connect()
            try await waiting.send(get)
            try await eventually("the connection waits") { await server.server.connections().open == 2 }
            #expect(!waiting.hasInput)
            served.removeFirst()
            #expect(try await waiting.receive().text == "a")
            #expect(try await served[0].exchange("2").text == "12")
            #expect(await server.server.connections().evicted == 0)
        }
    }

    @Test("At the limit, the longest idle connection is closed, however many hold theirs", arguments: [1, 2])
    func eviction(loops: Int) async throws {
        let limits = settings { settings in
            settings.maximumConnections = 4
            settings.shortestIdleTime = .zero
        }
        try await withServer(limits, loops: loops, routes: routes) { server in
            let busy = try server.connect()
            #expect(try await busy.exchange(get).text == "a")
            try await busy.send(Self.begun)
            try await server.waitUntilAllIsRead()
            try await expectEvictions(server, places: 3, isExact: loops == 1)
            #expect(try await busy.exchange("2").text == "12")
            #expect(await server.server.connections().evicted == 17)
        }
    }

    @Test("At the limit, a connection that became idle a moment ago is not closed: its next request may be on its way")
    func newlyIdle() async throws {
        let limits = settings { settings in
            settings.maximumConnections = 1
            settings.shortestIdleTime = .seconds(3600)
        }
        try await withServer(limits, routes: routes) { server in
            let client = try server.connect()
            #expect(try await client.exchange(get).text == "a")
            let waiting = try server.connect()
            try await waiting.send(get)
            for _ in 0..<10 { #expect(try await client.exchange(get).text == "a") }
            #expect(!waiting.hasInput)
            #expect(await server.server.connections().evicted == 0)
        }
    }

    @Test("At the limit, connections on which Kakao has presented its key are not closed, nor those of trusted proxies")
    func protected() async throws {
        try await withServer(settings { $0.maximumConnections = 2 }, routes: exempting) { server in
            let exempt = try server.connect()
            #expect(try await exempt.exchange(kakao).text == "kakao")
            let first = try server.connect()
            #expect(try await first.exchange(get).text == "a")
            let second = try server.connect()
            #expect(try await second.exchange(get).text == "a")
            #expect(try await first.receiveToEnd() == "")
            #expect(try await exempt.exchange(kakao).text == "kakao")
        }
        let proxied = settings { settings in
            settings.maximumConnections = 1
            settings.trustedProxies = TrustedProxies("127.0.0.1") ?? .none
        }
        try await withServer(proxied, routes: exempting) { server in
            let proxy = try server.connect()
            #expect(try await proxy.exchange(get).text == "a")
            let waiting = try server.connect()
            try await waiting.send(get)
            for _ in 0..<10 { #expect(try await proxy.exchange(get).text == "a") }
            #expect(!waiting.hasInput)
        }
    }

    @Test("While more than three quarters of the places are taken, connections are idle for five seconds at most")
    func crowded() async throws {
        let limits = settings { settings in
            settings.maximumConnections = 4
            settings.idleTimeout = .seconds(3600)
        }
        try await withServer(limits, routes: routes) { server in
            let clients = try (0..<4).map { _ in try server.connect() }
            try await eventually("all are open") { await server.server.connections().open == 4 }
            for client in clients { #expect(try await client.exchange(get).text == "a") }
            #expect(try await clients[0].receiveToEnd() == "")
        }
    }

    @Test("A line with many IPv6 networks has four times the connections of one of them")
    func sites() throws {
        let limit = ConnectionLimit(maximum: 1000, perAddress: 3, proxies: .none)
        func address(_ text: String) throws -> SocketAddress { try #require(SocketAddress(text)) }
        for index in 0..<12 { #expect(limit.assign(to: try address("2001:db8:1:\(index)::1"))) }
        #expect(!limit.assign(to: try address("2001:db8:1:ff::1")))
        for _ in 0..<3 { #expect(limit.assign(to: try address("2001:db8:2:1::1"))) }
        #expect(!limit.assign(to: try address("2001:db8:2:1::2")))
        #expect(limit.assign(to: try address("192.0.2.1")))
        limit.release(try address("2001:db8:1:3::1"))
        #expect(limit.assign(to: try address("2001:db8:1:ff::1")))
        limit.exempt(try address("2001:db8:1:ff::1"))
        #expect(limit.assign(to: try address("2001:db8:1:fe::1")))
        // A quarter of all connections at most.
        let small = ConnectionLimit(maximum: 20, perAddress: 4, proxies: .none)
        for index in 0..<5 { #expect(small.assign(to: try address("2001:db8:1:\(index)::1"))) }
        #expect(!small.assign(to: try address("2001:db8:1:ff::1")))
    }

    @Test("Other limits apply at once: connections that wait are accepted, and the next body may be longer")
    func otherLimits() async throws {
        let limits = settings { settings in
            settings.maximumConnections = 1
            settings.maximumBodyBytes = 10
            settings.headLimits.headerBytes = 1024
        }
        try await withServer(limits, loops: 2, routes: routes) { server in
            func echo(_ length: Int) -> String {
                "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: \(length)\r\n\r\n"
                    + String(repeating: "a", count: length)
            }
            let client = try server.connect()
            #expect(try await client.exchange(echo(10)).status == 200)
            try await client.send(Self.begun)
            try await server.waitUntilAllIsRead()
            let waiting = try server.connect()
            try await waiting.send(get)
            try await eventually("the connection waits") { await server.server.connections().open == 1 }
            #expect(!waiting.hasInput)
            await server.server.apply(
                settings { settings in
                    settings.maximumConnections = 3
                    settings.maximumBodyBytes = 20
                    settings.headLimits.headerBytes = 2048
                }
            )
            #expect(try await waiting.receive().text == "a")
            #expect(try await client.exchange("2").text == "12")
            #expect(try await client.exchange(echo(20)).text.utf8.count == 20)
            #expect(try await client.exchange(echo(21)).status == 413)
            let long = "GET /a HTTP/1.1\r\nHost: a\r\nX: \(String(repeating: "x", count: 1500))\r\n\r\n"
            #expect(try await server.connect().exchange(long).status == 200)
        }
    }

    @Test("Other timeouts apply to the next request of an open connection")
    func otherTimeouts() async throws {
        try await withServer(settings { $0.idleTimeout = .seconds(3600) }, routes: routes) { server in
            let client = try server.connect()
            #expect(try await client.exchange(get).text == "a")
            await server.server.apply(settings { $0.idleTimeout = .milliseconds(10) })
            #expect(try await client.exchange(get).text == "a")
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test(
        "At the limit per address, the longest idle connection is closed, on any loop",
        arguments: [1, 2]
    )
    func idleEviction(loops: Int) async throws {
        try await withServer(settings { $0.maximumConnectionsPerAddress = 3 }, loops: loops, routes: routes) { server in
            let busy = try server.connect()
            // In the middle of a request for longer than the other connections are idle. The 100 shows that the server
            // has read its head.
            let head = "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
            #expect(try await busy.exchange(head).status == 100)
            try await busy.send("1")
            try await expectEvictions(server, places: 2, isExact: loops == 1)
            #expect(try await busy.exchange("2").text == "12")
        }
    }

    /// Opens 20 connections that become idle, and expects that each beyond the free places closes the oldest one; with several
    /// loops, one of the older ones.
    private func expectEvictions(_ server: TestServer, places: Int, isExact: Bool) async throws {
        var idle: [RawClient] = []
        for index in 0..<20 {
            let client = try server.connect()
            #expect(try await client.exchange(get).text == "a")
            idle.append(client)
            // The loop's clock has a resolution of a millisecond.
            try await Task.sleep(for: .milliseconds(3))
            guard index >= places else { continue }
            let ended = try await endedConnection(idle.dropLast(), isExact: isExact)
            idle.removeAll { $0 === ended }
        }
    }

    /// Waits until the server closes one of the connections; it must be the first one if `isExact`.
    private func endedConnection(_ clients: ArraySlice<RawClient>, isExact: Bool) async throws -> RawClient {
        try await eventually("a connection is closed") { clients.contains(where: \.hasInput) }
        let ended = try #require(clients.first { $0.hasInput })
        #expect(try await ended.receiveToEnd() == "")
        #expect(!isExact || ended === clients.first)
        return ended
    }

    @Test("Connections exempted by a check are not counted, and not closed to make room")
    func exempted() async throws {
        try await withServer(settings { $0.maximumConnectionsPerAddress = 1 }, routes: exempting) { server in
            var exempt: [RawClient] = []
            for _ in 0..<10 {
                let client = try server.connect()
                #expect(try await client.exchange(kakao).text == "kakao")
                #expect(try await client.exchange(kakao).text == "kakao")
                exempt.append(client)
            }
            let counted = try server.connect()
            #expect(try await counted.exchange(get).text == "a")
            let next = try server.connect()
            #expect(try await next.exchange(get).text == "a")
            #expect(try await counted.receiveToEnd() == "")
            for client in exempt { #expect(try await client.exchange(kakao).text == "kakao") }
            // Ending them must not release places that they did not hold.
            exempt = []
            try await server.waitForConnections(atMost: 1)
            try await next.send("GET /a HT")
            try await server.waitUntilAllIsRead()
            #expect((try? await server.connect().receiveToEnd()) ?? "" == "")
        }
    }

    @Test(
        "Connections beyond an address's limit are closed if none is idle, and places are released",
        arguments: [1, 2]
    )
    func connectionsPerAddress(loops: Int) async throws {
        let limited = settings { settings in
            settings.maximumConnectionsPerAddress = 2
            settings.maximumConnections = 3
        }
        let begun = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1"
        try await withServer(limited, loops: loops, routes: routes) { server in
            var clients = [try server.connect(), try server.connect()]
            for client in clients {
                #expect(try await client.exchange(get).text == "a")
                try await client.send(begun)
            }
            try await server.waitUntilAllIsRead()
            for _ in 0..<5 { #expect((try? await server.connect().receiveToEnd()) ?? "" == "") }
            let line = await server.log.line {
                $0.message == "Connections closed: too many from one address"
            }
            #expect(line.level == .warning)
            #expect(line.metadata["remote"] == "127.0.0.1")
            for client in clients { #expect(try await client.exchange("2").text == "12") }
            try await clients[1].send(begun)
            clients.removeFirst()
            while true {
                // The server notices the end of a connection asynchronously.
                let client = try server.connect()
                if let answer = try? await client.exchange(get) {
                    #expect(answer.text == "a")
                    break
                }
            }
        }
    }

    @Test("Connections are counted by address in IPv4 and by /64 network in IPv6")
    func networks() throws {
        func network(_ text: String) throws -> SocketAddress.Network {
            try #require(SocketAddress(text)).network
        }
        #expect(try network("203.0.113.7") == network("203.0.113.7"))
        #expect(try network("203.0.113.7") != network("203.0.113.8"))
        #expect(try network("::ffff:203.0.113.7") == network("203.0.113.7"))
        #expect(try network("2001:db8:0:1::1") == network("2001:db8:0:1:ffff::2"))
        #expect(try network("2001:db8:0:1::1") != network("2001:db8:0:2::1"))
    }

    @Test("No socket leaks after a thousand connections that end in every way")
    func noLeak() async throws {
        try await withServer(settings { $0.maximumConnections = 20 }, loops: 2, routes: routes) { server in
            for index in 0..<1000 {
                let client = try server.connect()
                switch index % 5 {
                case 0:
                    // Ends while the connection is idle.
                    _ = try await client.exchange(get)
                case 1:
                    // Ends in the middle of a request.
                    try await client.send("GET /a HT")
                case 2:
                    // Ends after a refusal.
                    _ = try await client.exchange("NONSENSE\r\n\r\n")
                case 3:
                    // Ends by a reset.
                    try await client.send(get)
                    client.resetOnClose()
                default:
                    // Ends before a request.
                    break
                }
            }
            try await server.waitForConnections(atMost: 0)
            let client = try server.connect()
            #expect(try await client.exchange(get).text == "a")
            #expect(try ServerSocket.all(port: server.port).count == 1)
        }
    }
}
