import HTTPTypes
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
