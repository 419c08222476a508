import Glibc
import HTTPClient
import HTTPTypes
import TestSupport
import Testing

/// Connections that break, and what of a request is never sent twice.
///
/// Most clients send a request again on their own when a kept connection dies before an answer; Kakao's `push/send` would notify people
/// twice.
@Suite struct LostConnectionTests {
    /// The first connection answers once, and goes with the next request; others go on.
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
        "A request whose body had arrived on a kept connection is not sent again when the connection dies",
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
                #expect(error?.bodyBytesLeft == true)
                // What came after would be here before this is answered.
                #expect(await status(client, Self.post(server)) == 200)
            }
            #expect(server.requests.count == 3)
            #expect(server.connectionCount == 2)
        }
    }

    @Test(
        "A request is not sent again when a kept connection dies before the server has read it",
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
                #expect(error?.bodyBytesLeft == true)
            }
            #expect(server.requests.count == 1)
            #expect(server.connectionCount == 1)
        }
    }

    @Test("A request that finds its kept connection closed goes out on a new one", arguments: [false, true])
    func staleConnection(isReset: Bool) async throws {
        let gate = Gate()
        let script: @Sendable (RawConnection) -> Void = { connection in
            if connection.number == 1 {
                guard connection.readRequest() != nil else { return }
                connection.answer("first")
                // Not before the answer was read: a reset would take it along.
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

    @Test("A GET on a kept connection that dies is read again on a new one")
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

    @Test("A request that says it may be sent twice is sent again, whole, when its kept connection dies")
    func repeatedIdempotent() async throws {
        try await withServer(Self.dyingUnderSecond) { server in
            try await withClient { client, _ in
                var request = Self.post(server)
                request.isIdempotent = true
                #expect(await status(client, request) == 200)
                #expect(await status(client, request) == 200)
                // Another's after it is not taken for one of these.
                #expect(await status(client, Self.post(server)) == 200)
            }
            #expect(server.requests.map { String(decoding: $0.body, as: UTF8.self) } == ["a=b", "a=b", "a=b", "a=b"])
            #expect(server.connectionCount == 2)
        }
    }

    @Test("A request that says it may be sent twice, and whose body is NUL and other bytes or none, arrives as it is")
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

    @Test("A POST without a body is not sent again either", arguments: [HTTPRequest.Method.post, .delete])
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
                #expect(error?.bodyBytesLeft == true)
            }
            #expect(server.requests.count == 2)
        }
    }

    @Test("A new connection that breaks after the body has come is an error that says so")
    func brokenAfterBody() async throws {
        let script: @Sendable (RawConnection) -> Void = { _ = $0.readRequest() }
        try await withServer(script) { server in
            try await withClient { client, _ in
                let error = await failure(client, Self.post(server))
                #expect(error?.code == .connectionLost)
                #expect(error?.bodyBytesLeft == true)
            }
            #expect(server.requests.count == 1)
            #expect(server.connectionCount == 1)
        }
    }

    @Test("A connection that breaks within a large body is an error that says that bytes had left")
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
                #expect(error?.bodyBytesLeft == true)
            }
            #expect(server.connectionCount == 1)
        }
    }

    @Test("An answer that ends before its length is no answer")
    func truncated() async throws {
        try await withServer(Script.answeringOnce("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")) { server in
            try await withClient { client, _ in
                let error = await failure(client, Self.post(server))
                #expect(error?.code == .connectionLost)
                #expect(error?.bodyBytesLeft == true)
            }
        }
    }

    @Test("A chunked answer that ends before its last chunk is no answer")
    func truncatedChunks() async throws {
        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n"
        try await withServer(Script.answeringOnce(answer)) { server in
            try await withClient { client, _ in
                let error = await failure(client, HTTPClientRequest(url: server.url()))
                #expect(error?.code == .connectionLost)
            }
        }
    }

    @Test("A connection that is refused let nothing leave")
    func refused() async throws {
        let (listener, port) = try LoopbackSocket.listen(backlog: 1)
        close(listener)
        try await withClient { client, _ in
            let request = HTTPClientRequest(method: .post, url: "http://127.0.0.1:\(port)/path?secret", body: [65])
            let error = await failure(client, request)
            #expect(error?.code == .cannotConnect)
            #expect(error?.bodyBytesLeft == false)
            #expect(error?.message.contains("secret") == false)
            #expect(error?.message.contains("127.0.0.1:\(port)") == true)
        }
    }
}
