import HTTPClient
import HTTPTypes
import Locking
import TestSupport
import Testing

/// Responses that are read while they arrive.
@Suite(.timeLimit(.minutes(1))) struct StreamTests {
    private static let chunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Kind: stream\r\n\r\n"

    private static func chunk(_ text: String) -> String {
        "\(String(text.utf8.count, radix: 16))\r\n\(text)\r\n"
    }

    /// Returns bytes that repeat after a prime number, so that parts in a wrong order or place make a difference.
    private static func body(length: Int) -> [UInt8] {
        let pattern = [UInt8](0..<251)
        var body: [UInt8] = []
        body.reserveCapacity(length + pattern.count)
        while body.count < length { body += pattern }
        body.removeLast(body.count - length)
        return body
    }

    @Test("Each part can be read before the next one is sent")
    func parts() async throws {
        let gate = Locked(0)
        let script: @Sendable (RawConnection) -> Void = { connection in
            guard connection.readRequest() != nil else { return }
            connection.write(Self.chunkedHead)
            for number in 1...3 {
                connection.write(Self.chunk("part \(number)"))
                while gate.withLock({ $0 }) < number, !connection.hasEnded(within: 5) {}
            }
            connection.write("0\r\n\r\n")
            Script.echo(connection)
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                let parts = try await client.stream(HTTPClientRequest(url: server.url())) { stream in
                    #expect(stream.status == 200)
                    #expect(stream.headerFields[HTTPField.Name("X-Kind") ?? .accept] == "stream")
                    var parts: [String] = []
                    while let part = try await stream.next() {
                        parts.append(String(decoding: part, as: UTF8.self))
                        gate.withLock { $0 += 1 }
                    }
                    #expect(try await stream.next() == nil)
                    return parts
                }
                #expect(parts == ["part 1", "part 2", "part 3"])
                // The connection can be used again.
                #expect(await status(client, HTTPClientRequest(url: server.url("/next"))) == 200)
            }
            #expect(server.connectionCount == 1)
        }
    }

    @Test("A body of any length arrives whole, with TLS too", arguments: [false, true])
    func long(isSecure: Bool) async throws {
        let body = Self.body(length: 5_000_000)
        let head = Array("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n".utf8)
        func read(_ client: HTTPClient, _ url: String) async throws -> [UInt8] {
            try await client.stream(HTTPClientRequest(url: url)) { stream in
                var bytes: [UInt8] = []
                while let part = try await stream.next() {
                    #expect(part.count <= 2 * 64 * 1024)
                    bytes += part
                    await Task.yield()
                }
                return bytes
            }
        }
        var settings = HTTPClientSettings(totalTimeout: .seconds(60), maximumResponseBytes: 10)
        if isSecure {
            let script: @Sendable (TLSScriptConnection) -> Void = { connection in
                while connection.readRequest() { connection.write(head + body) }
            }
            try await TLSScriptServer.run(script) { server in
                settings.trust = server.trust
                try await withClient(settings) { client, _ in
                    for _ in 0..<2 {
                        let received = try await read(client, server.url)
                        #expect(received == body)
                    }
                }
                #expect(server.connectionCount == 1)
            }
        } else {
            let script: @Sendable (RawConnection) -> Void = { connection in
                while connection.readRequest() != nil { connection.write(head + body) }
            }
            try await withServer(script) { server in
                try await withClient(settings) { client, _ in
                    for _ in 0..<2 {
                        let received = try await read(client, server.url())
                        #expect(received == body)
                    }
                }
                #expect(server.connectionCount == 1)
            }
        }
    }

    @Test("A host that sends faster than the body is read is slowed down")
    func backPressure() async throws {
        let sent = Locked(0)
        let (isBlocked, gate) = (Signal(), Gate())
        let piece = [UInt8](repeating: 65, count: 64 * 1024)
        let total = 512 * piece.count
        let script: @Sendable (RawConnection) -> Void = { connection in
            guard connection.readRequest() != nil else { return }
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(total)\r\n\r\n")
            while sent.withLock({ $0 }) < total {
                if !connection.canWrite(within: 200) {
                    isBlocked.fire()
                    gate.wait()
                }
                connection.write(piece)
                sent.withLock { $0 += piece.count }
            }
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                let count = try await client.stream(HTTPClientRequest(url: server.url())) { stream in
                    var count = try await stream.next()?.count ?? 0
                    await isBlocked.wait()
                    #expect(sent.withLock { $0 } < total)
                    gate.open()
                    while let part = try await stream.next() { count += part.count }
                    return count
                }
                #expect(count == total)
            }
        }
    }

    @Test("The length that a host announces takes no memory before the body arrives")
    func announcedLength() async throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: \(Int.max)\r\n\r\n"
        try await withServer(Script.answeringOnce(head + "begun")) { server in
            try await withClient { client, _ in
                let error = await #expect(throws: HTTPClientError.self) {
                    try await client.stream(HTTPClientRequest(url: server.url())) { stream in
                        #expect(try await stream.next() == Array("begun".utf8))
                        _ = try await stream.next()
                    }
                }
                #expect(error?.code == .connectionLost)
            }
        }
    }

    @Test("The time that a slow reader takes is not the host's")
    func slowReader() async throws {
        let piece = [UInt8](repeating: 65, count: 1024 * 1024)
        let script: @Sendable (RawConnection) -> Void = { connection in
            guard connection.readRequest() != nil else { return }
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(8 * piece.count)\r\n\r\n")
            for _ in 0..<8 { connection.write(piece) }
        }
        try await withServer(script) { server in
            try await withServer(Script.silence) { silent in
                try await withClient { client, _ in
                    let request = HTTPClientRequest(url: server.url(), totalTimeout: .milliseconds(300))
                    let count = try await client.stream(request) { stream in
                        var count = try await stream.next()?.count ?? 0
                        // The reader does something else that takes longer than the time limit.
                        let other = HTTPClientRequest(url: silent.url(), totalTimeout: .milliseconds(900))
                        #expect(await failure(client, other)?.code == .timedOut)
                        while let part = try await stream.next() { count += part.count }
                        return count
                    }
                    #expect(count == 8 * piece.count)
                }
            }
        }
    }

    @Test("A response that is cut off is an error after what has arrived")
    func cutOff() async throws {
        try await withServer(Script.answeringOnce(Self.chunkedHead + Self.chunk("begun"))) { server in
            try await withClient { client, _ in
                let error = await #expect(throws: HTTPClientError.self) {
                    try await client.stream(HTTPClientRequest(url: server.url())) { stream in
                        #expect(try await stream.next() == Array("begun".utf8))
                        _ = try await stream.next()
                    }
                }
                #expect(error?.code == .connectionLost)
            }
        }
    }

    @Test("A request without a response is an error, and one with an error status is not")
    func noResponse() async throws {
        try await withServer(Script.answeringOnce("garbage")) { server in
            try await withClient { client, _ in
                let error = await #expect(throws: HTTPClientError.self) {
                    try await client.stream(HTTPClientRequest(url: server.url())) { _ in Issue.record("a response") }
                }
                #expect(error?.code == .badResponse)
            }
        }
        try await withServer(Script.answering("HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno")) { server in
            try await withClient { client, _ in
                let (status, body) = try await client.stream(HTTPClientRequest(url: server.url())) { stream in
                    (stream.status, try await stream.next())
                }
                #expect(status == 404)
                #expect(body == Array("no".utf8))
            }
        }
    }

    @Test("What is not read closes the connection; a cancelled reader and a silent host end the wait")
    func ends() async throws {
        let ended = Locked(0)
        let script: @Sendable (RawConnection) -> Void = { connection in
            guard connection.readRequest() != nil else { return }
            connection.write(Self.chunkedHead + Self.chunk("begun"))
            connection.waitForEnd()
            ended.withLock { $0 += 1 }
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                var request = HTTPClientRequest(url: server.url())
                try await client.stream(request) { _ = try await $0.next() }
                try await eventually("the connection is closed") { ended.withLock { $0 } == 1 }

                let (arrived, url) = (Signal(), server.url())
                let reader = Task {
                    try await client.stream(HTTPClientRequest(url: url)) { stream in
                        _ = try await stream.next()
                        arrived.fire()
                        _ = try await stream.next()
                    }
                }
                await arrived.wait()
                reader.cancel()
                let cancelled = await #expect(throws: HTTPClientError.self) { try await reader.value }
                #expect(cancelled?.code == .canceled)

                request.totalTimeout = .milliseconds(200)
                let late = await #expect(throws: HTTPClientError.self) {
                    try await client.stream(request) { stream in while try await stream.next() != nil {} }
                }
                #expect(late?.code == .timedOut)
                try await eventually("all connections are closed") { ended.withLock { $0 } == 3 }
            }
        }
    }
}
