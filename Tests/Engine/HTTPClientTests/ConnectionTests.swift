import EventLoop
import HTTPClient
import HTTPTypes
import Testing

/// The lifetime of connections: when they are opened, kept and closed.
@Suite struct ConnectionTests {
    @Test("Consecutive requests share one connection")
    func keepAlive() async throws {
        try await withServer(Script.echo) { server in
            try await withClient { client, _ in
                for index in 0..<5 {
                    let response = try await client.send(HTTPClientRequest(url: server.url("/\(index)")))
                    #expect(String(decoding: response.body, as: UTF8.self) == "/\(index)")
                }
            }
            #expect(server.connectionCount == 1)
        }
    }

    @Test("A connection that the server announces to close is not reused")
    func connectionClose() async throws {
        let script: @Sendable (RawConnection) -> Void = { connection in
            while connection.readRequest() != nil { connection.answer("", head: "Connection: close\r\n") }
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                for _ in 0..<3 { _ = try await client.send(HTTPClientRequest(url: server.url())) }
            }
            #expect(server.connectionCount == 3)
        }
    }

    @Test("A connection that the server keeps for a second is closed at once, before the server does")
    func keepAliveTimeout() async throws {
        let script: @Sendable (RawConnection) -> Void = { connection in
            while connection.readRequest() != nil { connection.answer("", head: "Keep-Alive: timeout=1, max=100\r\n") }
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                for _ in 0..<2 { #expect(await status(client, HTTPClientRequest(url: server.url())) == 200) }
            }
            #expect(server.connectionCount == 2)
        }
    }

    @Test("An idle connection is closed before the server's announced time")
    func idleTimeout() async throws {
        let ended = Signal()
        let script: @Sendable (RawConnection) -> Void = { connection in
            while connection.readRequest() != nil { connection.answer("", head: "Keep-Alive: timeout=2\r\n") }
            ended.fire()
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                for _ in 0..<2 { #expect(await status(client, HTTPClientRequest(url: server.url())) == 200) }
                await ended.wait()
            }
            #expect(server.connectionCount == 1)
        }
    }

    @Test("200 concurrent requests each get their own response, within the connection limit")
    func manyAtOnce() async throws {
        try await withServer(Script.echo) { server in
            try await withClient(HTTPClientSettings(maximumConnections: 8)) { client, _ in
                let answers = try await withThrowingTaskGroup(of: (Int, HTTPClientResponse).self) { group in
                    for index in 0..<200 {
                        group.addTask {
                            let path = server.url("/\(index)")
                            return (
                                index, try await client.send(HTTPClientRequest(method: .post, url: path, body: [65]))
                            )
                        }
                    }
                    return try await group.reduce(into: [:]) { $0[$1.0] = String(decoding: $1.1.body, as: UTF8.self) }
                }
                #expect(answers == Dictionary(uniqueKeysWithValues: (0..<200).map { ($0, "/\($0)") }))
            }
            #expect(server.requests.count == 200)
            #expect(server.connectionCount <= 8)
        }
    }

    @Test("A task on the loop sends a request without leaving the loop")
    func fromTheLoop() async throws {
        try await withServer(Script.echo) { server in
            try await withClient { client, loop in
                let request = HTTPClientRequest(url: server.url("/here"))
                let task = Task(executorPreference: loop) {
                    let response = try await client.send(request)
                    return (response.body, loop.isOnLoop)
                }
                let (body, isOnLoop) = try await task.value
                #expect(String(decoding: body, as: UTF8.self) == "/here")
                #expect(isOnLoop)
            }
        }
    }

    @Test("A request fails at once if there is neither a connection nor a place in the queue")
    func overloaded() async throws {
        let (arrived, gate) = (Signal(), Gate())
        let script: @Sendable (RawConnection) -> Void = { connection in
            while connection.readRequest() != nil {
                arrived.fire()
                gate.wait()
                connection.answer("")
            }
        }
        try await withServer(script) { server in
            let settings = HTTPClientSettings(maximumConnections: 1, maximumWaitingRequests: 0)
            try await withClient(settings) { client, _ in
                let request = HTTPClientRequest(method: .post, url: server.url(), body: [65])
                async let first = client.send(request)
                await arrived.wait()
                let error = await failure(client, request)
                #expect(error?.code == .overloaded)
                #expect(error?.mayHaveBeenSent == false)
                gate.open()
                let response = try await first
                #expect(response.status == 200)
                #expect(await status(client, request) == 200)
            }
        }
    }

    @Test("Thousands of requests whose time to start has passed all fail, and send nothing")
    func expired() async throws {
        let (arrived, gate) = (Signal(), Gate())
        let script: @Sendable (RawConnection) -> Void = { connection in
            while connection.readRequest() != nil {
                arrived.fire()
                gate.wait()
                connection.answer("")
            }
        }
        try await withServer(script) { server in
            let settings = HTTPClientSettings(totalTimeout: .seconds(60), maximumConnections: 1)
            try await withClient(settings) { client, loop in
                let request = HTTPClientRequest(method: .post, url: server.url(), body: [65])
                async let first = client.send(request)
                await arrived.wait()
                var late = request
                late.latestStart = EventLoop.milliseconds()
                let codes = await withTaskGroup(of: HTTPClientError.Code?.self) { [late] group in
                    for _ in 0..<9000 {
                        group.addTask(executorPreference: loop) { await failure(client, late)?.code }
                    }
                    // On the loop, so that all are in the queue.
                    await Task(executorPreference: loop) {}.value
                    gate.open()
                    return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
                }
                #expect(codes == [.expired: 9000])
                let response = try await first
                #expect(response.status == 200)
                #expect(await status(client, request) == 200)
            }
            #expect(server.requests.count == 2)
        }
    }

    @Test("A request that times out while it waits for a connection is not sent")
    func timeOutInLine() async throws {
        let (arrived, gate) = (Signal(), Gate())
        let script: @Sendable (RawConnection) -> Void = { connection in
            while connection.readRequest() != nil {
                arrived.fire()
                gate.wait()
                connection.answer("")
            }
        }
        try await withServer(script) { server in
            try await withClient(HTTPClientSettings(maximumConnections: 1)) { client, _ in
                let request = HTTPClientRequest(method: .post, url: server.url(), body: [65])
                async let first = client.send(request)
                await arrived.wait()
                var hasty = request
                hasty.totalTimeout = .milliseconds(20)
                let error = await failure(client, hasty)
                #expect(error?.code == .timedOut)
                #expect(error?.mayHaveBeenSent == false)
                gate.open()
                let response = try await first
                #expect(response.status == 200)
            }
            #expect(server.requests.count == 1)
        }
    }

    @Test("The queue for one host does not delay another host")
    func linesByHost() async throws {
        let (arrived, gate) = (Signal(), Gate())
        let slow: @Sendable (RawConnection) -> Void = { connection in
            guard connection.readRequest() != nil else { return }
            arrived.fire()
            gate.wait()
            connection.answer("slow")
        }
        try await withServer(slow) { slowServer in
            try await withServer(Script.echo) { server in
                try await withClient(HTTPClientSettings(maximumConnections: 1)) { client, _ in
                    async let first = client.send(HTTPClientRequest(url: slowServer.url()))
                    await arrived.wait()
                    #expect(await status(client, HTTPClientRequest(url: server.url())) == 200)
                    gate.open()
                    let response = try await first
                    #expect(response.status == 200)
                }
            }
        }
    }
}
