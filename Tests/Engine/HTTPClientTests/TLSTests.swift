import Glibc
import HTTPClient
import HTTPTypes
import Net
import TestSupport
import Testing

/// The certificates that the client trusts.
@Suite struct TLSTests {
    @Test("A host with an untrusted certificate is rejected before any byte leaves")
    func unknown() async throws {
        try await TLSServer.run { server in
            try await withClient { client, _ in
                let error = await failure(
                    client,
                    HTTPClientRequest(method: .post, url: server.url("localhost"), body: [65])
                )
                #expect(error?.code == .tls)
                #expect(error?.mayHaveBeenSent == false)
                #expect(error?.message.contains("certificate") == true)
            }
        }
    }

    @Test("A host whose certificate is trusted by the given file is accepted")
    func known() async throws {
        try await TLSServer.run { server in
            try await withClient(HTTPClientSettings(trust: TrustStore(file: server.certificateFile))) { client, _ in
                for _ in 0..<2 {
                    let response = try await client.send(HTTPClientRequest(url: server.url("localhost")))
                    #expect(response.status == 200)
                }
            }
        }
    }

    @Test("A host whose certificate is for another name is rejected")
    func wrongName() async throws {
        try await TLSServer.run { server in
            try await withClient(HTTPClientSettings(trust: TrustStore(file: server.certificateFile))) { client, _ in
                let error = await failure(
                    client,
                    HTTPClientRequest(method: .post, url: server.url("127.0.0.1"), body: [65])
                )
                #expect(error?.code == .tls)
                #expect(error?.mayHaveBeenSent == false)
            }
        }
    }

    @Test("A host that supports only TLS 1.1 or older is rejected")
    func oldVersion() async throws {
        try await TLSServer.run(options: ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]) { server in
            try await withClient(HTTPClientSettings(trust: TrustStore(file: server.certificateFile))) { client, _ in
                let error = await failure(
                    client,
                    HTTPClientRequest(method: .post, url: server.url("localhost"), body: [65])
                )
                #expect(error?.code == .tls)
                #expect(error?.mayHaveBeenSent == false)
            }
        }
    }

    @Test("A host that does not speak TLS is rejected")
    func noTLS() async throws {
        let script: @Sendable (RawConnection) -> Void = { $0.write("HTTP/1.1 200 OK\r\n\r\n") }
        try await withServer(script) { server in
            try await withClient { client, _ in
                let url = "https://localhost:\(server.port)/"
                let error = await failure(client, HTTPClientRequest(method: .post, url: url, body: [65]))
                #expect(error?.code == .tls)
                #expect(error?.mayHaveBeenSent == false)
            }
        }
    }

    @Test("A second connection resumes the session of the first")
    func resumption() async throws {
        let script: @Sendable (TLSScriptConnection) -> Void = { connection in
            guard connection.readRequest() else { return }
            connection.answer(connection.isResumed ? "resumed" : "new")
            connection.sayGoodbye()
        }
        try await TLSScriptServer.run(script) { server in
            try await withClient(Self.trusting(server)) { client, _ in
                var bodies: [String] = []
                for _ in 0..<3 {
                    let response = try await client.send(HTTPClientRequest(url: server.url))
                    bodies.append(String(decoding: response.body, as: UTF8.self))
                }
                #expect(bodies == ["new", "resumed", "resumed"])
            }
        }
    }

    @Test("A session that was offered in a failed handshake is not offered again")
    func failedResumption() async throws {
        let script: @Sendable (TLSScriptConnection) -> Void = { connection in
            guard connection.readRequest() else { return }
            connection.answer(connection.isResumed ? "resumed" : "new")
            connection.sayGoodbye()
        }
        try await TLSScriptServer.run(script) { server in
            let relay: @Sendable (RawConnection) -> Void = { connection in
                // Some load balancers fail on the sessions of others.
                guard connection.number != 2 else { return connection.waitForUnread("") }
                connection.relay(to: server.port)
            }
            try await withServer(relay) { balancer in
                try await withClient(Self.trusting(server)) { client, _ in
                    let request = HTTPClientRequest(url: "https://localhost:\(balancer.port)/")
                    var bodies = [try await client.send(request).body]
                    #expect(await failure(client, request)?.code == .tls)
                    for _ in 0..<2 { bodies.append(try await client.send(request).body) }
                    #expect(bodies.map { String(decoding: $0, as: UTF8.self) } == ["new", "new", "resumed"])
                }
            }
        }
    }

    @Test("Messages of TLS itself on an idle connection are not its end")
    func idleMessages() async throws {
        let sent = Gate()
        let script: @Sendable (TLSScriptConnection) -> Void = { connection in
            while connection.readRequest() {
                connection.answer("\(connection.number)")
                connection.sendMessagesOfTLS()
                sent.open()
            }
        }
        try await TLSScriptServer.run(script) { server in
            try await withClient(Self.trusting(server)) { client, loop in
                for _ in 0..<4 {
                    // Not idempotent, so that the connection is examined first.
                    let response = try await client.send(HTTPClientRequest(method: .post, url: server.url))
                    #expect(response.body == Array("1".utf8))
                    await blocking { sent.wait() }
                    await Task(executorPreference: loop) {}.value
                }
            }
            #expect(server.connectionCount == 1)
        }
    }

    @Test("A response that ends with the connection is complete only if TLS says so", arguments: [false, true])
    func truncation(isAnnounced: Bool) async throws {
        let script: @Sendable (TLSScriptConnection) -> Void = { connection in
            guard connection.readRequest() else { return }
            connection.write(Array("HTTP/1.1 200 OK\r\n\r\nall there is".utf8))
            if isAnnounced { connection.sayGoodbye() }
        }
        try await TLSScriptServer.run(script) { server in
            try await withClient(Self.trusting(server)) { client, _ in
                if isAnnounced {
                    let response = try await client.send(HTTPClientRequest(url: server.url))
                    #expect(response.body == Array("all there is".utf8))
                } else {
                    #expect(await failure(client, HTTPClientRequest(url: server.url))?.code == .connectionLost)
                }
            }
        }
    }

    @Test("Bytes after a response belong to no other response", arguments: [false, true])
    func extraBytes(isIdempotent: Bool) async throws {
        let script: @Sendable (TLSScriptConnection) -> Void = { connection in
            while connection.readRequest() {
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"
                // The second response arrives in a record of its own.
                connection.write(Array("\(answer)\(connection.number)".utf8))
                connection.write(Array("\(answer)X".utf8))
            }
        }
        try await TLSScriptServer.run(script) { server in
            try await withClient(Self.trusting(server)) { client, _ in
                let request = HTTPClientRequest(method: .post, url: server.url, isIdempotent: isIdempotent)
                let first = try await client.send(request)
                #expect(first.body == Array("1".utf8))
                try await eventually("the connection is closed") {
                    try await client.send(request).body == Array("\(server.connectionCount)".utf8)
                        && server.connectionCount > 1
                }
            }
        }
    }

    private static func trusting(_ server: TLSScriptServer) -> HTTPClientSettings {
        HTTPClientSettings(totalTimeout: .seconds(60), trust: server.trust)
    }
}
