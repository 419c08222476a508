import EventLoop
import Glibc
import HTTPTypes
import TestSupport
import Testing

@testable import HTTPServer

@Suite("Shutdown", .timeLimit(.minutes(1)))
struct ShutdownTests {
    private let gate = Gate()
    private let entered = Gate()

    private func routes(_ router: inout Router) {
        let (gate, entered) = (gate, entered)
        router.add(.get, "/a", .immediate { _ in .text("a") })
        router.on(.get, "/slow") { _ in
            entered.open()
            await gate.wait()
            return .text("slow")
        }
    }

    @Test("The current request is finished with Connection: close, and no new connection is accepted")
    func requestInHand() async throws {
        try await withServer(loops: 2, routes: routes) { server in
            let client = try server.connect()
            try await client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            await entered.wait()
            async let shutdown: Void = server.server.shutdown(within: .seconds(3600))
            while (try? server.connect()) != nil { await Task.yield() }
            gate.open()
            let answer = try await client.receive()
            #expect(answer.text == "slow")
            #expect(answer["connection"] == "close")
            #expect(try await client.receiveToEnd() == "")
            await shutdown
        }
    }

    @Test("A connection without a request is closed at once")
    func idle() async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            #expect(try await client.exchange("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").text == "a")
            async let shutdown: Void = server.server.shutdown(within: .seconds(3600))
            #expect(try await client.receiveToEnd() == "")
            await shutdown
        }
    }

    @Test("Connections that remain after the time limit are closed without a response")
    func limit() async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            try await client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            await entered.wait()
            await server.server.shutdown(within: .milliseconds(50))
            #expect(try await client.receiveToEnd() == "")
            gate.open()
        }
    }

    @Test("While it drains, a server accepts connections, and each connection ends with its next response")
    func drain() async throws {
        try await withServer(loops: 2, routes: routes) { server in
            let idle = try server.connect()
            #expect(try await idle.exchange("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")["connection"] == nil)
            let busy = try server.connect()
            try await busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            await entered.wait()
            server.server.drain()
            for loop in server.server.loopServers { await loop.loop.result {} }
            for client in [idle, try server.connect()] {
                let answer = try await client.exchange("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(answer.text == "a")
                #expect(answer["connection"] == "close")
                #expect(try await client.receiveToEnd() == "")
            }
            gate.open()
            let answer = try await busy.receive()
            #expect(answer.text == "slow")
            #expect(answer["connection"] == "close")
        }
    }

    @Test(
        "A socket that a service manager keeps: the loops share its connections, and those that wait are the next server's"
    )
    func keptSocket() async throws {
        let manager = try LoopbackSocket.listen()
        defer { close(manager.descriptor) }
        func serve(_ name: String, _ body: (HTTPServer) async throws -> Void) async throws {
            let loops = try EventLoopGroup(count: 3)
            defer { loops.shutdown() }
            var router = Router()
            router.add(.get, "/name", .immediate { _ in .text(name) })
            let application = Application(router: router, middleware: [], logger: CollectedLog().logger)
            let server = try HTTPServer(
                settings: settings { $0.port = Int(manager.port) },
                sockets: [dup(manager.descriptor)],
                loops: loops,
                logger: CollectedLog().logger
            ) { _ in application }
            server.start()
            try await body(server)
            await server.shutdown(within: .zero)
        }
        let name = "GET /name HTTP/1.1\r\nHost: a\r\n\r\n"
        try await serve("first") { server in
            var clients: [RawClient] = []
            for _ in 0..<6 {
                let client = try RawClient(port: Int(manager.port))
                #expect(try await client.exchange(name).text == "first")
                clients.append(client)
            }
            for loop in server.loopServers {
                #expect(await loop.loop.result { loop.connections.count } == 2)
            }
        }
        let waiting = try RawClient(port: Int(manager.port))
        try await waiting.send(name)
        try await serve("second") { _ in
            let answer = try await waiting.receive()
            #expect(answer.text == "second")
        }
    }

    @Test("A client that connects right before the server stops gets a response to its first request")
    func firstRequest() async throws {
        try await withServer(settings { $0.shortestIdleTime = .seconds(3600) }, routes: routes) { server in
            let client = try server.connect()
            try await eventually("the connection is accepted") {
                await server.server.connections().open == 1
            }
            async let shutdown: Void = server.server.shutdown(within: .seconds(3600))
            while (try? server.connect()) != nil { await Task.yield() }
            for loop in server.server.loopServers { await loop.loop.result {} }
            let answer = try await client.exchange("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(answer.text == "a")
            #expect(answer["connection"] == "close")
            client.shutdownWrite()
            await shutdown
        }
    }

    @Test("Two concurrent calls both return")
    func twice() async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            try await client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            await entered.wait()
            async let first: Void = server.server.shutdown(within: .seconds(3600))
            async let second: Void = server.server.shutdown(within: .seconds(3600))
            while (try? server.connect()) != nil { await Task.yield() }
            gate.open()
            #expect(try await client.receive().text == "slow")
            client.shutdownWrite()
            _ = await (first, second)
        }
    }
}
