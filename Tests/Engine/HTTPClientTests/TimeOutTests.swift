import EventLoop
import Glibc
import HTTPClient
import HTTPTypes
import TestSupport
import Testing

/// Timeouts for slow servers.
@Suite struct TimeOutTests {
    @Test("A request to a silent server times out, and the error says that the body left")
    func noAnswer() async throws {
        try await withServer(Script.silence) { server in
            // Long enough to connect and send the body, even on a busy machine.
            try await withClient(HTTPClientSettings(totalTimeout: .seconds(2))) { client, _ in
                let error = await failure(client, HTTPClientRequest(method: .post, url: server.url(), body: [65]))
                #expect(error?.code == .timedOut)
                #expect(error?.mayHaveBeenSent == true)
            }
        }
    }

    @Test("A response that trickles in does not extend the timeout")
    func trickle() async throws {
        let script: @Sendable (RawConnection) -> Void = { connection in
            guard connection.readRequest() != nil else { return }
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            // Until the client closes the connection.
            while !connection.hasEnded(within: 5) { connection.write("x") }
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                let error = await failure(
                    client,
                    HTTPClientRequest(url: server.url(), totalTimeout: .milliseconds(100))
                )
                #expect(error?.code == .timedOut)
            }
        }
    }

    @Test("A connection that is never accepted times out before any byte leaves")
    func noConnection() async throws {
        // A listener with a full queue does not respond to further connections.
        let (listener, port) = try LoopbackSocket.listen(backlog: 0)
        defer { close(listener) }
        let settings = HTTPClientSettings(connectTimeout: .milliseconds(100), maximumConnections: 64)
        try await withClient(settings) { client, _ in
            let errors = await withTaskGroup(of: HTTPClientError?.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        let request = HTTPClientRequest(method: .post, url: "http://127.0.0.1:\(port)/", body: [65])
                        return await failure(client, request)
                    }
                }
                // Requests that got into the queue wait for a response; they do not matter here.
                var errors: [HTTPClientError] = []
                for await error in group where error?.mayHaveBeenSent == false {
                    if let error { errors.append(error) }
                    group.cancelAll()
                }
                return errors
            }
            #expect(errors.contains { $0.code == .timedOut })
        }
    }

    @Test("A TLS handshake without a response times out before any byte leaves")
    func noHandshake() async throws {
        try await withServer(Script.silence) { server in
            try await withClient(HTTPClientSettings(connectTimeout: .milliseconds(100))) { client, _ in
                let url = "https://127.0.0.1:\(server.port)/"
                let error = await failure(client, HTTPClientRequest(method: .post, url: url, body: [65]))
                #expect(error?.code == .timedOut)
                #expect(error?.mayHaveBeenSent == false)
            }
        }
    }

    @Test("A request that timed out leaves no timer or connection that affects the next one")
    func afterTimeOut() async throws {
        let script: @Sendable (RawConnection) -> Void = { connection in
            if connection.number == 1 { Script.silence(connection) } else { Script.echo(connection) }
        }
        try await withServer(script) { server in
            try await withClient(HTTPClientSettings(maximumConnections: 1)) { client, _ in
                // Long enough to connect, even on a busy machine.
                let error = await failure(client, HTTPClientRequest(url: server.url(), totalTimeout: .seconds(2)))
                #expect(error?.code == .timedOut)
                for _ in 0..<3 {
                    let response = try await client.send(HTTPClientRequest(url: server.url("/next")))
                    #expect(response.body == Array("/next".utf8))
                }
            }
            #expect(server.connectionCount == 2)
        }
    }
}
