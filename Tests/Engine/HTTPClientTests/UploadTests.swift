import Glibc
import HTTPClient
import HTTPTypes
import Locking
import Testing

/// Requests whose bodies are sent while they are read, and groups of requests with connections of their own.
@Suite(.timeLimit(.minutes(1))) struct UploadTests {
    /// A body of pieces, which ends with empty pieces.
    private actor Source {
        private var pieces: ArraySlice<[UInt8]>
        private(set) var reads = 0

        init(_ pieces: [[UInt8]]) { self.pieces = pieces[...] }

        func next() -> [UInt8] {
            reads += 1
            return pieces.popFirst() ?? []
        }
    }

    private static func request(_ server: RawServer, _ source: Source, length: Int) -> HTTPClientRequest {
        HTTPClientRequest(
            method: .post,
            url: server.url("/upload"),
            body: Array("start ".utf8),
            upload: HTTPClientUpload(length: length) { await source.next() }
        )
    }

    @Test("A body of 8 MB is sent in pieces, and its connection is used again")
    func large() async throws {
        try await withServer(Script.echo) { server in
            try await withClient { client, _ in
                let pieces = (0..<128).map { [UInt8](repeating: UInt8(ascii: "a") + UInt8($0 % 26), count: 65_536) }
                let source = Source(pieces)
                let request = Self.request(server, source, length: 128 * 65_536)
                #expect(try await client.send(request).status == 200)
                #expect(await source.reads == 128)
                #expect(await status(client, HTTPClientRequest(url: server.url())) == 200)
                let received = try #require(server.requests.first)
                #expect(received.field("Content-Length") == "8388614")
                #expect(received.body == Array("start ".utf8) + pieces.joined())
            }
            #expect(server.connectionCount == 1)
        }
    }

    @Test("An upload over TLS goes on while the host sends interim responses")
    func interimResponses() async throws {
        let piece = [UInt8](repeating: 65, count: 1_000_000)
        let pieces = 8
        let script: @Sendable (TLSScriptConnection) -> Void = { connection in
            guard connection.readHead() else { return }
            // Until the buffers of both systems are full.
            connection.waitUntilBlocked()
            var (rest, records) = (pieces * piece.count, 0)
            while rest > 0 {
                guard let count = connection.read() else { return }
                rest -= count
                records += 1
                guard records % 4 == 0, records <= 64 else { continue }
                // The client reads this before its system says that there is room to write.
                connection.write(Array("HTTP/1.1 102 Processing\r\n\r\n".utf8))
                poll(nil, 0, 20)
            }
            connection.answer("all")
        }
        try await TLSScriptServer.run(script) { server in
            let settings = HTTPClientSettings(totalTimeout: .seconds(40), trust: server.trust)
            try await withClient(settings) { client, _ in
                var request = HTTPClientRequest(method: .post, url: server.url)
                request.upload = HTTPClientUpload(length: pieces * piece.count) { piece }
                let response = try await client.send(request)
                #expect(response.body == Array("all".utf8))
            }
        }
    }

    @Test("An upload of no bytes that was sent may have had its effect")
    func empty() async throws {
        let script: @Sendable (RawConnection) -> Void = { _ = $0.readRequest() }
        try await withServer(script) { server in
            try await withClient { client, _ in
                var request = HTTPClientRequest(method: .post, url: server.url())
                request.upload = HTTPClientUpload(length: 0) { [] }
                let error = await failure(client, request)
                #expect(error?.code == .connectionLost)
                #expect(error?.mayHaveBeenSent == true)
            }
            #expect(server.requests.count == 1)
        }
    }

    @Test("A body that ends early, or is longer than declared, fails without a response", arguments: [3, 5])
    func wrongLength(length: Int) async throws {
        try await withServer(Script.echo) { server in
            try await withClient { client, _ in
                let request = Self.request(server, Source([Array("four".utf8)]), length: length)
                let error = await failure(client, request)
                #expect(error?.code == .uploadFailed)
                #expect(error?.mayHaveBeenSent == true)
            }
            #expect(server.requests.isEmpty)
        }
    }

    @Test("A body that cannot be read fails")
    func unreadable() async throws {
        struct Unreadable: Error {}
        try await withServer(Script.echo) { server in
            try await withClient { client, _ in
                var request = HTTPClientRequest(method: .post, url: server.url())
                request.upload = HTTPClientUpload(length: 4) { throw Unreadable() }
                #expect(await failure(client, request)?.code == .uploadFailed)
            }
        }
    }

    @Test("A response before the end of the body ends the upload, and the connection is not used again")
    func earlyResponse() async throws {
        let script: @Sendable (RawConnection) -> Void = { connection in
            guard connection.readHead() != nil else { return }
            connection.answer("too large", status: 413)
            connection.waitForEnd()
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                // Endless pieces, which only the response ends.
                var request = HTTPClientRequest(method: .post, url: server.url())
                request.upload = HTTPClientUpload(length: .max - 1) { [UInt8](repeating: 0, count: 1024) }
                #expect(await status(client, request) == 413)
                #expect(await status(client, request) == 413)
            }
            #expect(server.connectionCount == 2)
        }
    }

    @Test("A source that never answers is cancelled with its request")
    func silentSource() async throws {
        try await withServer(Script.silence) { server in
            try await withClient(HTTPClientSettings(totalTimeout: .milliseconds(300))) { client, _ in
                var request = HTTPClientRequest(method: .post, url: server.url())
                request.upload = HTTPClientUpload(length: 4) {
                    try await Task.sleep(for: .seconds(3600))
                    return []
                }
                #expect(await failure(client, request)?.code == .timedOut)
            }
        }
    }

    @Test("A request whose upload has begun is not repeated when its kept-alive connection is lost")
    func lostConnection() async throws {
        let script: @Sendable (RawConnection) -> Void = { connection in
            guard connection.readRequest() != nil else { return }
            connection.answer("first")
            connection.waitForUnread("four")
        }
        try await withServer(script) { server in
            try await withClient { client, _ in
                #expect(await status(client, HTTPClientRequest(url: server.url())) == 200)
                var request = Self.request(server, Source([Array("four".utf8)]), length: 4)
                request.isIdempotent = true
                #expect(await failure(client, request)?.code == .connectionLost)
            }
            #expect(server.connectionCount == 1)
        }
    }

    @Test("Requests of one group do not take the connections of another")
    func groups() async throws {
        try await withServer(Script.silence) { server in
            let (busy, idle) = (ConnectionGroup(1), ConnectionGroup(2))
            let settings = HTTPClientSettings(maximumConnections: 1, connectionLimits: [busy: 2])
            try await withClient(settings) { client, _ in
                let url = server.url()
                let tasks = (0..<6).map { number in
                    Task {
                        await failure(client, HTTPClientRequest(url: url, connections: number < 5 ? busy : idle))
                    }
                }
                // Two of the five, and the only one of the other group.
                while server.connectionCount < 3 { await Task.yield() }
                #expect(server.connectionCount == 3)
                for task in tasks { task.cancel() }
                for task in tasks { #expect(await task.value?.code == .canceled) }
            }
        }
    }
}
