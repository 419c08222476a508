import EventLoop
import Glibc
import HTTPTypes
import Logging
import TestSupport
import Testing

@testable import HTTPServer

private let get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"

private func routes(_ router: inout Router) {
    router.add(.get, "/a", .immediate { _ in .text("a") })
    router.add(.post, "/echo", .immediate { Response(.ok, body: $0.body) })
}

@Suite("Limits", .timeLimit(.minutes(1)))
struct LimitTests {
    @Test("A body one byte over the limit is refused at once, without waiting for it")
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

    @Test("A chunked body is refused as soon as it is over the limit")
    func chunkedBody() async throws {
        try await withServer(settings { $0.maximumBodyBytes = 10 }, routes: routes) { server in
            let client = try server.connect()
            try await client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            try await client.send("8\r\n01234567\r\n")
            #expect(try await client.exchange("8\r\n012").status == 413)
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("A refusal reaches a client that goes on sending its body")
    func refusalWhileSending() async throws {
        try await withServer(settings { $0.maximumBodyBytes = 10 }, routes: routes) { server in
            let client = try server.connect()
            try await client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n")
            try await client.send([UInt8](repeating: 0x61, count: 500_000))
            #expect(try await client.receive().status == 413)
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("More connections than the limit wait, and are served when others end", arguments: [1, 2])
    func connections(loops: Int) async throws {
        try await withServer(settings { $0.maximumConnections = 2 }, loops: loops, routes: routes) { server in
            var served: [RawClient] = []
            for _ in 0..<2 {
                let client = try server.connect()
                #expect(try await client.exchange(get).text == "a")
                served.append(client)
            }
            let waiting = try server.connect()
            try await waiting.send(get)
            for _ in 0..<10 {
                for client in served { #expect(try await client.exchange(get).text == "a") }
            }
            #expect(!waiting.hasInput)
            served.removeFirst()
            #expect(try await waiting.receive().text == "a")
        }
    }

    @Test(
        "At its limit an address loses the connection that has been idle longest, on whatever loop",
        arguments: [1, 2]
    )
    func idleEviction(loops: Int) async throws {
        try await withServer(settings { $0.maximumConnectionsPerAddress = 3 }, loops: loops, routes: routes) { server in
            let busy = try server.connect()
            // In the middle of a request, for longer than the others.
            try await busy.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1")
            var idle: [RawClient] = []
            for index in 0..<20 {
                let client = try server.connect()
                #expect(try await client.exchange(get).text == "a")
                idle.append(client)
                // The loop counts in milliseconds.
                try await Task.sleep(for: .milliseconds(3))
                guard index >= 2 else { continue }
                // On one loop the oldest ends; on two, one of the older ones.
                let ended = try await endedConnection(idle.dropLast(), isExact: loops == 1)
                idle.removeAll { $0 === ended }
            }
            #expect(try await busy.exchange("2").text == "12")
        }
    }

    /// Waits for the server to close one of these, the first one if that is known.
    private func endedConnection(_ clients: ArraySlice<RawClient>, isExact: Bool) async throws -> RawClient {
        try await eventually("a connection is closed") { clients.contains(where: \.hasInput) }
        let ended = try #require(clients.first { $0.hasInput })
        #expect(try await ended.receiveToEnd() == "")
        #expect(!isExact || ended === clients.first)
        return ended
    }

    @Test("Connections that a check has exempted do not count, and are not closed for others")
    func exempted() async throws {
        let exempting: (inout Router) -> Void = { router in
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
        try await withServer(settings { $0.maximumConnectionsPerAddress = 1 }, routes: exempting) { server in
            let kakao = "GET /kakao HTTP/1.1\r\nHost: a\r\n\r\n"
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
            // Their end gives no place back that they did not have.
            exempt = []
            try await server.hasConnections(atMost: 1)
            try await next.send("GET /a HT")
            try await server.hasReadEverything()
            #expect((try? await server.connect().receiveToEnd()) ?? "" == "")
        }
    }

    @Test(
        "More connections from one address than its limit are closed if none is idle, and its places come back",
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
            try await server.hasReadEverything()
            for _ in 0..<5 { #expect((try? await server.connect().receiveToEnd()) ?? "" == "") }
            let line = await server.log.line {
                $0.message == "Closed connections from an address that has too many"
            }
            #expect(line.level == .warning)
            #expect(line.metadata["remote"] == "127.0.0.1")
            for client in clients { #expect(try await client.exchange("2").text == "12") }
            try await clients[1].send(begun)
            clients.removeFirst()
            while true {
                // The server learns of the end in its own time.
                let client = try server.connect()
                if let answer = try? await client.exchange(get) {
                    #expect(answer.text == "a")
                    break
                }
            }
        }
    }

    @Test("Addresses are counted one by one in IPv4, and by network in IPv6")
    func networks() throws {
        func network(_ text: String) throws -> SocketAddress.Network {
            var storage = sockaddr_storage()
            let isV6 = text.contains(":")
            storage.ss_family = sa_family_t(isV6 ? AF_INET6 : AF_INET)
            let count = withUnsafeMutableBytes(of: &storage) { bytes in
                inet_pton(isV6 ? AF_INET6 : AF_INET, text, bytes.baseAddress?.advanced(by: isV6 ? 8 : 4))
            }
            #expect(count == 1)
            return SocketAddress(storage).network
        }
        #expect(try network("203.0.113.7") == network("203.0.113.7"))
        #expect(try network("203.0.113.7") != network("203.0.113.8"))
        #expect(try network("::ffff:203.0.113.7") == network("203.0.113.7"))
        #expect(try network("2001:db8:0:1::1") == network("2001:db8:0:1:ffff::2"))
        #expect(try network("2001:db8:0:1::1") != network("2001:db8:0:2::1"))
    }

    @Test("A thousand connections that end in every way leave no socket behind")
    func noLeak() async throws {
        try await withServer(settings { $0.maximumConnections = 20 }, loops: 2, routes: routes) { server in
            for index in 0..<1000 {
                let client = try server.connect()
                switch index % 5 {
                case 0:
                    // Ends with a connection that is idle.
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
            try await server.hasConnections(atMost: 0)
            let client = try server.connect()
            #expect(try await client.exchange(get).text == "a")
            #expect(try ServerSocket.all(port: server.port).count == 1)
        }
    }

    @Test("Running out of descriptors is logged and survived: who waits is served when others end")
    func descriptors() async {
        // In a process of its own, since the limit is one of the process.
        await #expect(processExitsWith: .success) { try await runOutOfDescriptors() }
    }
}

private func runOutOfDescriptors() async throws {
    try await withServer(routes: routes) { server in
        let first = try server.connect()
        #expect(try await first.exchange(get).text == "a")
        // Leaves room for some connections and not for the server's end of every one of them.
        let descriptors = rlim_t(try lowestFreeDescriptor() + 12)
        var limit = rlimit(rlim_cur: descriptors, rlim_max: descriptors)
        guard setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else {
            throw SystemError(call: "setrlimit")
        }
        var clients: [RawClient] = []
        while let client = try? server.connect() { clients.append(client) }
        let line = await server.log.line { $0.message == "Not accepting connections" }
        #expect(line.level == .warning)
        #expect(line.metadata["error"]?.contains("accept4") == true)
        #expect(try await first.exchange(get).text == "a")
        let last = clients.popLast()
        clients = []
        #expect(try await last?.exchange(get).text == "a")
        let next = try server.connect()
        #expect(try await next.exchange(get).text == "a")
    }
}

private func lowestFreeDescriptor() throws -> Int {
    let number = open("/dev/null", O_RDONLY | O_CLOEXEC)
    guard number >= 0 else { throw SystemError(call: "open") }
    return Int(FileDescriptor(owning: number).rawValue)
}
