import HTTPTypes
import Testing

@testable import HTTPServer

private let get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
private let large = [UInt8](repeating: 0x61, count: 16 << 20)

private func routes(_ router: inout Router) {
    router.add(.get, "/a", .immediate { _ in .text("a") })
    router.add(.get, "/large", .immediate { _ in Response(.ok, body: large) })
    router.add(.post, "/echo", .immediate { Response(.ok, body: $0.body) })
}

/// Returns settings with very long timeouts, except those that `change` shortens.
private func patient(_ change: (inout HTTPServerSettings) -> Void) -> HTTPServerSettings {
    settings { settings in
        settings.headerTimeout = .seconds(3600)
        settings.bodyTimeout = .seconds(3600)
        settings.idleTimeout = .seconds(3600)
        change(&settings)
    }
}

@Suite("Timeouts", .timeLimit(.minutes(1)))
struct TimeoutTests {
    private let short = Duration.milliseconds(100)
    /// A header timeout for requests that must arrive before it expires, even on a busy machine. It begins with the
    /// connection.
    private let ample = Duration.seconds(2)

    @Test("An incomplete head gets 408")
    func slowHead() async throws {
        try await withServer(patient { $0.headerTimeout = ample }, routes: routes) { server in
            let client = try server.connect()
            let answer = try await client.exchange("GET /a HTTP/1.1\r\nHost:")
            #expect(answer.status == 408)
            #expect(answer["connection"] == "close")
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("An incomplete second head on a used connection gets 408")
    func slowSecondHead() async throws {
        try await withServer(patient { $0.headerTimeout = ample }, routes: routes) { server in
            let client = try server.connect()
            #expect(try await client.exchange(get + "GET").text == "a")
            #expect(try await client.receive().status == 408)
        }
    }

    @Test("An incomplete body gets 408")
    func slowBody() async throws {
        try await withServer(patient { $0.bodyTimeout = short }, routes: routes) { server in
            let client = try server.connect()
            let answer = try await client.exchange("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell")
            #expect(answer.status == 408)
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("The body timeout also applies to a body that is being discarded")
    func slowUnwantedBody() async throws {
        try await withServer(patient { $0.bodyTimeout = short }, routes: routes) { server in
            let client = try server.connect()
            let answer = try await client.exchange("POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell")
            #expect(answer.status == 404)
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("A client that connects and sends nothing is disconnected after the header timeout")
    func silent() async throws {
        try await withServer(patient { $0.headerTimeout = short }, routes: routes) { server in
            let silent = try server.connect()
            #expect(try await silent.receiveToEnd() == "")
        }
    }

    @Test("A connection between two requests is closed after the idle timeout")
    func idle() async throws {
        try await withServer(patient { $0.idleTimeout = short }, routes: routes) { server in
            let client = try server.connect()
            #expect(try await client.exchange(get).text == "a")
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("A connection that serves requests outlives the header timeout of its first one")
    func busy() async throws {
        try await withServer(patient { $0.headerTimeout = ample }, routes: routes) { server in
            let busy = try server.connect()
            #expect(try await busy.exchange(get).text == "a")
            // Connected later: when its timeout expires, the first connection's has expired too.
            let silent = try server.connect()
            #expect(try await silent.receiveToEnd() == "")
            #expect(try await busy.exchange(get).text == "a")
        }
    }

    @Test("A handler may take longer than any timeout")
    func handler() async throws {
        let gate = Gate()
        let impatient = settings { settings in
            settings.headerTimeout = ample
            settings.bodyTimeout = short
            settings.idleTimeout = short
        }
        func routes(_ router: inout Router) {
            router.on(.get, "/slow") { _ in
                await gate.wait()
                return .text("slow")
            }
        }
        try await withServer(impatient, routes: routes) { server in
            let client = try server.connect()
            try await client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            let silent = try server.connect()
            #expect(try await silent.receiveToEnd() == "")
            gate.open()
            #expect(try await client.receive().text == "slow")
        }
    }

    @Test("A client that does not read its response is disconnected after the body timeout")
    func unreadAnswer() async throws {
        let settings = patient { settings in
            settings.bodyTimeout = short
            settings.maximumConnections = 1
        }
        try await withServer(settings, routes: routes) { server in
            let client = try server.connect(receiveBuffer: 4096)
            try await client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            // The second connection is accepted only after the first is closed.
            let second = try server.connect()
            #expect(try await second.exchange(get).text == "a")
            await #expect(throws: (any Error).self) { try await client.receive() }
        }
    }

    @Test("A client that reads its response below the minimum rate is disconnected")
    func trickledAnswer() async throws {
        let settings = patient { settings in
            settings.bodyTimeout = .seconds(1)
            settings.minimumBytesPerSecond = 1_000_000
            settings.maximumConnections = 1
        }
        try await withServer(settings, routes: routes) { server in
            let client = try server.connect(receiveBuffer: 4096)
            try await client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            let second = try server.connect()
            try await second.send(get)
            while !second.hasInput {
                _ = try? client.takeSome(1000)
                try await Task.sleep(for: .milliseconds(20))
            }
            #expect(try await second.receive().text == "a")
        }
    }

    @Test("After the last response, a connection ends as soon as the peer closes it")
    func peerClosesAfterLastAnswer() async throws {
        let settings = patient { settings in
            settings.lingerTimeout = .seconds(3600)
            settings.maximumConnections = 1
        }
        try await withServer(settings, routes: routes) { server in
            do {
                let client = try server.connect()
                #expect(try await client.exchange("NONSENSE\r\n\r\n").status == 400)
                #expect(try await client.receiveToEnd() == "")
            }
            let second = try server.connect()
            #expect(try await second.exchange(get).text == "a")
        }
    }

    @Test("After the last response, a peer that does not close is disconnected after the linger timeout")
    func peerDoesNotClose() async throws {
        let settings = patient { settings in
            settings.lingerTimeout = short
            settings.maximumConnections = 1
        }
        try await withServer(settings, routes: routes) { server in
            let client = try server.connect()
            #expect(try await client.exchange("NONSENSE\r\n\r\n").status == 400)
            let second = try server.connect()
            #expect(try await second.exchange(get).text == "a")
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("After a slowly read large response, the idle timeout applies")
    func idleAfterBlocked() async throws {
        try await withServer(patient { $0.idleTimeout = short }, routes: routes) { server in
            let client = try server.connect(receiveBuffer: 4096)
            try await client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.receive().body.count == large.count)
            #expect(try await client.receiveToEnd() == "")
        }
    }
}
