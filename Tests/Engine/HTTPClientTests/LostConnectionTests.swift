import Glibc
import HTTPClient
import HTTPTypes
import TestSupport
import Testing

/// Lost connections, and the requests that must not be sent twice.
///
/// Most clients repeat a request automatically when a kept-alive connection is lost before a response. With Kakao's
/// `push/send`, that would notify people twice.
@Suite struct LostConnectionTests {
    /// The first connection responds once and closes on the next request; further connections echo.
    @Sendable private static func dyingUnderSecond(_ connection: RawConnection) {
        guard connection.number == 1 else { return Script.echo(connection) }
        guard connection.readRequest() != nil else { return }
        connection.answer("first")
        _ = connection.readRequest()
    }

    private static func post(_ server: RawServer) -> HTTPClientRequest {
        HTTPClientRequest(method: .post, url: server.url(), body: Array("a=b".utf8))
    }

    @Test(
        "A request whose body has arrived is not repeated when its kept-alive connection is lost",
        arguments: [false, true]
    )
    func noSecondSending(isReset: Bool) async throws {
        let script: @Sendable (RawConnection) -> Void = { connection in
            guard connection.readRequest() != nil else { return }
            connection.answer("first")
            guard connection.readRequest() != nil else { return }
            if isReset { connection.reset() }
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                #expect(await status(client, Self.post(server)) == 200)
                let error = await failure(client, Self.post(server))
                #expect(error?.code == .connectionLost)
                #expect(error?.mayHaveBeenSent == true)
                // A repeated request would be recorded before this one is answered.
                #expect(await status(client, Self.post(server)) == 200)
            }
            #expect(server.requests.count == 3)
            #expect(server.connectionCount == 2)
        }
    }

    @Test(
        "A request is not repeated when its kept-alive connection is lost before the server reads it",
        arguments: [false, true]
    )
    func noSecondSendingUnread(isReset: Bool) async throws {
        let script: @Sendable (RawConnection) -> Void = { connection in
            guard connection.readRequest() != nil else { return }
            connection.answer("first")
            connection.waitForUnread("a=b")
            if isReset { connection.reset() }
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                #expect(await status(client, Self.post(server)) == 200)
                let error = await failure(client, Self.post(server))
                #expect(error?.code == .connectionLost)
                #expect(error?.mayHaveBeenSent == true)
            }
            #expect(server.requests.count == 1)
            #expect(server.connectionCount == 1)
        }
    }

    @Test("A request uses a new connection if the kept-alive one is closed", arguments: [false, true])
    func staleConnection(isReset: Bool) async throws {
        let gate = Gate()
        let script: @Sendable (RawConnection) -> Void = { connection in
            if connection.number == 1 {
                guard connection.readRequest() != nil else { return }
                connection.answer("first")
                // Only after the client has read the response, because a reset would discard it.
                gate.wait()
                if isReset { connection.reset() }
            } else {
                Script.echo(connection)
            }
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                #expect(await status(client, Self.post(server)) == 200)
                gate.open()
                try await eventually("the connection is closed") { !Descriptors.hasOpenSocket(to: server.port) }
                #expect(await status(client, Self.post(server)) == 200)
            }
            #expect(server.requests.count == 2)
            #expect(server.connectionCount == 2)
        }
    }

    @Test("What the server sent before a request is not its response", arguments: [HTTPRequest.Method.get, .post])
    func unsolicited(method: HTTPRequest.Method) async throws {
        let (gate, sent) = (Gate(), Gate())
        let script: @Sendable (RawConnection) -> Void = { connection in
            guard connection.number == 1 else { return Script.echo(connection) }
            guard connection.readRequest() != nil else { return }
            connection.answer("first")
            gate.wait()
            connection.write("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            sent.open()
            _ = connection.readRequest()
        }
        try await withServer(script) { server in
            try await withClient { client, loop in
                let request = HTTPClientRequest(method: method, url: server.url())
                let statuses = Task(executorPreference: loop) {
                    let first = try await client.send(request).status
                    gate.open()
                    // The loop does not learn of it before the next request.
                    sent.wait()
                    return [first, try await client.send(request).status]
                }
                let both = try await statuses.value
                #expect(both == [200, 200])
            }
            #expect(server.connectionCount == 2)
        }
    }

    @Test("A GET is repeated on a new connection when its kept-alive connection is lost")
    func repeatedGet() async throws {
        try await withServer(Self.dyingUnderSecond) { server in
            try await withClient { client, _ in
                #expect(await status(client, HTTPClientRequest(url: server.url())) == 200)
                let response = try await client.send(HTTPClientRequest(url: server.url("/again")))
                #expect(response.body == Array("/again".utf8))
            }
            #expect(server.requests.count == 3)
        }
    }

    @Test("An idempotent request is repeated in full when its kept-alive connection is lost")
    func repeatedIdempotent() async throws {
        try await withServer(Self.dyingUnderSecond) { server in
            try await withClient { client, _ in
                var request = Self.post(server)
                request.isIdempotent = true
                #expect(await status(client, request) == 200)
                #expect(await status(client, request) == 200)
                // A following request that is not idempotent is still sent once.
                #expect(await status(client, Self.post(server)) == 200)
            }
            #expect(server.requests.map { String(decoding: $0.body, as: UTF8.self) } == ["a=b", "a=b", "a=b", "a=b"])
            #expect(server.connectionCount == 2)
        }
    }

    @Test("An idempotent request arrives unchanged with a binary, empty or large body")
    func idempotentBodies() async throws {
        try await withServer(Script.echo) { server in
            try await withClient { client, _ in
                for body in [[0, 1, 0, 255], [], Array(repeating: 65, count: 300_000)] as [[UInt8]] {
                    let request = HTTPClientRequest(method: .post, url: server.url(), body: body, isIdempotent: true)
                    #expect(await status(client, request) == 200)
                    #expect(server.requests.last?.body == body)
                }
            }
        }
    }

    @Test("A POST or DELETE without a body is not repeated", arguments: [HTTPRequest.Method.post, .delete])
    func noSecondSendingOfHead(method: HTTPRequest.Method) async throws {
        let script: @Sendable (RawConnection) -> Void = { connection in
            guard connection.readRequest() != nil else { return }
            connection.answer("first")
            _ = connection.readRequest()
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                let request = HTTPClientRequest(method: method, url: server.url())
                #expect(await status(client, request) == 200)
                let error = await failure(client, request)
                #expect(error?.code == .connectionLost)
                #expect(error?.mayHaveBeenSent == true)
            }
            #expect(server.requests.count == 2)
        }
    }

    @Test("If a new connection is lost after the body was sent, the error says that bytes left")
    func brokenAfterBody() async throws {
        let script: @Sendable (RawConnection) -> Void = { _ = $0.readRequest() }
        try await withServer(script) { server in
            try await withClient { client, _ in
                let error = await failure(client, Self.post(server))
                #expect(error?.code == .connectionLost)
                #expect(error?.mayHaveBeenSent == true)
            }
            #expect(server.requests.count == 1)
            #expect(server.connectionCount == 1)
        }
    }

    @Test("If a connection is lost within a large body, the error says that bytes left")
    func brokenWithinBody() async throws {
        let script: @Sendable (RawConnection) -> Void = { connection in
            _ = connection.readHead()
            connection.reset()
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                let body = [UInt8](repeating: 65, count: 16 * 1024 * 1024)
                let error = await failure(client, HTTPClientRequest(method: .post, url: server.url(), body: body))
                #expect(error?.code == .connectionLost)
                #expect(error?.mayHaveBeenSent == true)
            }
            #expect(server.connectionCount == 1)
        }
    }

    @Test("A response shorter than its Content-Length is an error")
    func truncated() async throws {
        try await withServer(Script.answeringOnce("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")) { server in
            try await withClient { client, _ in
                let error = await failure(client, Self.post(server))
                #expect(error?.code == .connectionLost)
                #expect(error?.mayHaveBeenSent == true)
            }
        }
    }

    @Test("A chunked response that ends before its last chunk is an error")
    func truncatedChunks() async throws {
        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n"
        try await withServer(Script.answeringOnce(answer)) { server in
            try await withClient { client, _ in
                let error = await failure(client, HTTPClientRequest(url: server.url()))
                #expect(error?.code == .connectionLost)
            }
        }
    }

    @Test("If a connection is refused, no byte has left")
    func refused() async throws {
        let (listener, port) = try LoopbackSocket.listen(backlog: 1)
        close(listener)
        try await withClient { client, _ in
            let request = HTTPClientRequest(method: .post, url: "http://127.0.0.1:\(port)/path?secret", body: [65])
            let error = await failure(client, request)
            #expect(error?.code == .cannotConnect)
            #expect(error?.mayHaveBeenSent == false)
            #expect(error?.message.contains("secret") == false)
            #expect(error?.message.contains("127.0.0.1:\(port)") == true)
        }
    }
}
