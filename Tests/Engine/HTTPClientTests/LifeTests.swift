import EventLoop
import Glibc
import HTTPClient
import HTTPTypes
import TestSupport
import Testing

/// Cancellation, shutdown and resource cleanup.
@Suite struct LifeTests {
    @Test("Cancelling a task ends its request and closes its connection")
    func cancelUnderWay() async throws {
        let (arrived, ended) = (Signal(), Signal())
        let script: @Sendable (RawConnection) -> Void = { connection in
            _ = connection.readRequest()
            arrived.fire()
            connection.waitForEnd()
            ended.fire()
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                let request = HTTPClientRequest(method: .post, url: server.url(), body: [65])
                let task = Task { await failure(client, request) }
                await arrived.wait()
                task.cancel()
                let error = await task.value
                #expect(error?.code == .canceled)
                #expect(error?.mayHaveBeenSent == true)
                await ended.wait()
            }
        }
    }

    @Test("A task that is cancelled before it sends a request sends nothing")
    func cancelBefore() async throws {
        try await withServer(Script.echo) { server in
            try await withClient { client, _ in
                let request = HTTPClientRequest(method: .post, url: server.url(), body: [65])
                let gate = Signal()
                let task = Task {
                    await gate.wait()
                    return await failure(client, request)
                }
                task.cancel()
                gate.fire()
                let error = await task.value
                #expect(error?.code == .canceled)
                #expect(error?.mayHaveBeenSent == false)
            }
            #expect(server.connectionCount == 0)
        }
    }

    @Test("A request that is cancelled in the queue gives its place to the next one")
    func cancelInLine() async throws {
        let (arrived, gate) = (Signal(), Gate())
        let script: @Sendable (RawConnection) -> Void = { connection in
            while connection.readRequest() != nil {
                arrived.fire()
                gate.wait()
                connection.answer("")
            }
        }
        try await withServer(script) { server in
            try await withClient(HTTPClientSettings(maximumConnections: 1)) { client, loop in
                let request = HTTPClientRequest(method: .post, url: server.url(), body: [65])
                async let first = client.send(request)
                await arrived.wait()
                // On the loop, so that both are in the queue when the next lines run.
                let second = Task(executorPreference: loop) { await failure(client, request) }
                let third = Task(executorPreference: loop) { try await client.send(request).status }
                await Task(executorPreference: loop) {}.value
                second.cancel()
                let error = await second.value
                #expect(error?.code == .canceled)
                #expect(error?.mayHaveBeenSent == false)
                gate.open()
                let statuses = try await [first.status, third.value]
                #expect(statuses == [200, 200])
            }
            #expect(server.requests.count == 2)
        }
    }

    @Test("Shutdown ends requests in flight and in the queue, and no request starts afterwards")
    func shutDown() async throws {
        let arrived = Signal()
        let script: @Sendable (RawConnection) -> Void = { connection in
            _ = connection.readRequest()
            arrived.fire()
            connection.waitForEnd()
        }
        try await withServer(script) { server in
            try await withClient(HTTPClientSettings(maximumConnections: 1)) { client, loop in
                let request = HTTPClientRequest(method: .post, url: server.url(), body: [65])
                let first = Task { await failure(client, request) }
                await arrived.wait()
                let second = Task(executorPreference: loop) { await failure(client, request) }
                await Task(executorPreference: loop) {}.value
                await client.shutdown()
                #expect(await first.value?.code == .shutDown)
                #expect(await first.value?.mayHaveBeenSent == true)
                #expect(await second.value?.code == .shutDown)
                #expect(await second.value?.mayHaveBeenSent == false)
                #expect(await failure(client, request)?.code == .shutDown)
                await client.shutdown()
            }
            #expect(server.requests.count == 1)
        }
    }

    @Test("A released client closes its connections")
    func dropped() async throws {
        let ended = Signal()
        let script: @Sendable (RawConnection) -> Void = { connection in
            Script.echo(connection)
            ended.fire()
        }
        try await withServer(script) { server in
            let group = try EventLoopGroup(count: 1)
            defer { group.shutdown() }
            var client: HTTPClient? = HTTPClient(loop: group.loops[0])
            #expect(try await client?.send(HTTPClientRequest(url: server.url())).status == 200)
            client = nil
            await ended.wait()
        }
    }

    @Test("No descriptor leaks, however requests end")
    func descriptors() async {
        // In a separate process, so that nothing else opens descriptors.
        await #expect(processExitsWith: .success) {
            // The first sleep opens some descriptors permanently.
            try await Task.sleep(for: .milliseconds(1))
            let count = Descriptors.countOfOurs
            for _ in 0..<3 { try await Descriptors.exercise() }
            // The threads of abandoned lookups end with the lookups.
            try await eventually("the descriptors are closed") { Descriptors.countOfOurs <= count }
        }
    }

    @Test("Proxies from the environment are not used")
    func proxies() async {
        await #expect(processExitsWith: .success) {
            for name in ["http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"] {
                setenv(name, "http://127.0.0.1:1", 1)
            }
            try await withServer(Script.echo) { server in
                try await withClient { client, _ in
                    #expect(await status(client, HTTPClientRequest(url: server.url())) == 200)
                }
            }
        }
    }
}

extension Descriptors {
    /// Makes requests end in every possible way.
    fileprivate static func exercise() async throws {
        let script: @Sendable (RawConnection) -> Void = { connection in
            while let request = connection.readRequest() {
                if request.head.contains("/silent") { return connection.waitForEnd() }
                if request.head.contains("/closed") { return }
                connection.answer("")
            }
        }
        let server = try RawServer(script)
        try await withClient { client, loop in
            await withTaskGroup(of: Void.self) { group in
                for index in 0..<100 {
                    let path = ["/", "/closed", "/silent", "/canceled/silent"][index % 4]
                    var request = HTTPClientRequest(method: .post, url: server.url(path), body: [65])
                    if index % 7 == 0 { request.url = "http://localhost:\(server.port)\(path)" }
                    if index % 11 == 0 { request.url = "http://name.invalid/" }
                    request.totalTimeout = .milliseconds(200)
                    let (isCanceled, sent) = (path.contains("canceled"), request)
                    group.addTask {
                        let task = Task(executorPreference: loop) { await failure(client, sent) }
                        if isCanceled {
                            try? await loop.sleep(for: .milliseconds(10))
                            task.cancel()
                        }
                        _ = await task.value
                    }
                }
            }
        }
        server.stop()
        await server.waitForEnd()
    }
}
