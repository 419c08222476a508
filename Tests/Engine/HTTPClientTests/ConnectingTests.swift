import EventLoop
import HTTPClient
import HTTPTypes
import Locking
import Net
import TestSupport
import Testing

/// The way to a host: its name, its addresses, and a proxy.
@Suite(.timeLimit(.minutes(1))) struct ConnectingTests {
    private static func post(_ url: String) -> HTTPClientRequest {
        HTTPClientRequest(method: .post, url: url, body: [65])
    }

    private static func settings(_ addresses: [String], connectTimeout: Duration = .seconds(10)) -> HTTPClientSettings {
        var settings = HTTPClientSettings(connectTimeout: connectTimeout, totalTimeout: .seconds(60))
        settings.resolver = NameResolver { _ in .success(addresses.compactMap { SocketAddress($0) }) }
        return settings
    }

    // MARK: Names

    @Test("A name without an address fails before any byte leaves")
    func noAddress() async throws {
        var settings = HTTPClientSettings()
        settings.resolver = NameResolver { .failure(NameResolver.Failure("\($0): no such name")) }
        try await withClient(settings) { client, _ in
            let error = await failure(client, Self.post("http://kakao.example:1234/path?secret"))
            #expect(error?.code == .cannotResolve)
            #expect(error?.mayHaveBeenSent == false)
            #expect(error?.message == "http://kakao.example:1234: cannot resolve kakao.example: no such name")
        }
    }

    @Test("Thousands of requests that wait for a host without an address all fail")
    func manyWithoutAddress() async throws {
        let gate = Gate()
        var settings = HTTPClientSettings(
            connectTimeout: .seconds(60),
            totalTimeout: .seconds(60),
            maximumConnections: 1,
            maximumWaitingRequests: 40_000
        )
        settings.resolver = NameResolver { name in
            gate.wait()
            return .failure(NameResolver.Failure("\(name): no such name"))
        }
        try await withClient(settings) { client, loop in
            let codes = await withTaskGroup(of: HTTPClientError.Code?.self) { group in
                for _ in 0..<40_000 {
                    group.addTask(executorPreference: loop) {
                        await failure(client, Self.post("http://kakao.example/"))?.code
                    }
                }
                // On the loop, so that all are in the queue.
                await Task(executorPreference: loop) {}.value
                gate.open()
                return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
            }
            #expect(codes == [.cannotResolve: 40_000])
        }
    }

    @Test("A resolver that hangs ends the request at its limit, and other hosts can be reached")
    func hangingResolver() async throws {
        let gate = Gate()
        defer { gate.open() }
        var settings = HTTPClientSettings(connectTimeout: .milliseconds(100), totalTimeout: .seconds(60))
        settings.resolver = NameResolver { _ in
            gate.wait()
            return .success([])
        }
        try await withServer(Script.echo) { server in
            try await withClient(settings) { client, _ in
                let error = await failure(client, Self.post("http://kakao.example/"))
                #expect(error?.code == .timedOut)
                #expect(error?.mayHaveBeenSent == false)
                #expect(error?.message == "http://kakao.example: its name was not resolved within 100 ms")
                #expect(await status(client, Self.post(server.url())) == 200)
            }
        }
    }

    @Test("Another address is used if the first is refused, or never answers", arguments: ["::1", "127.0.0.2"])
    func otherAddress(dead: String) async throws {
        try await withServer(Script.echo) { server in
            try await withClient(Self.settings([dead, "127.0.0.1"])) { client, _ in
                #expect(await status(client, Self.post("http://kakao.example:\(server.port)/")) == 200)
            }
        }
    }

    @Test("The name is looked up again after none of its addresses could be reached")
    func movedHost() async throws {
        try await withServer(Script.echo) { server in
            let lookUps = Locked(0)
            var settings = HTTPClientSettings()
            settings.resolver = NameResolver { _ in
                let count = lookUps.withLock {
                    $0 += 1
                    return $0
                }
                return .success([SocketAddress(count == 1 ? "127.0.0.2" : "127.0.0.1")].compactMap(\.self))
            }
            try await withClient(settings) { client, _ in
                let url = "http://kakao.example:\(server.port)/"
                #expect(await failure(client, Self.post(url))?.code == .cannotConnect)
                #expect(await status(client, Self.post(url)) == 200)
            }
        }
    }

    // MARK: Proxies

    private static func proxied(_ server: RawServer, user: String = "") throws -> HTTPClientSettings {
        let proxy = try #require(HTTPProxy(url: "http://\(user)127.0.0.1:\(server.port)"))
        return HTTPClientSettings(connectTimeout: .seconds(10), totalTimeout: .seconds(60), proxy: proxy)
    }

    @Test("A request goes through the proxy's tunnel, and leaves the credentials out of the message")
    func tunnel() async throws {
        let script: @Sendable (RawConnection) -> Void = { connection in
            _ = connection.readRequest()
            connection.write("HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n")
            Script.echo(connection)
        }
        try await withServer(script) { proxy in
            try await withClient(Self.proxied(proxy, user: "user:p%40ss%3Aword@")) { client, _ in
                for path in ["/one", "/two"] {
                    // The proxy resolves the name.
                    let response = try await client.send(Self.post("http://kakao.invalid:8080\(path)"))
                    #expect(response.body == Array(path.utf8))
                }
            }
            #expect(proxy.connectionCount == 1)
            #expect(proxy.requests.count == 3)
            let connect = proxy.requests[0]
            #expect(connect.lines.first == "CONNECT kakao.invalid:8080 HTTP/1.1")
            #expect(connect.field("Host") == "kakao.invalid:8080")
            // "user:p@ss:word"
            #expect(connect.field("Proxy-Authorization") == "Basic dXNlcjpwQHNzOndvcmQ=")
            #expect(proxy.requests[1].lines.first == "POST /one HTTP/1.1")
            #expect(proxy.requests[1].field("Proxy-Authorization") == nil)
        }
    }

    @Test(
        "A proxy that refuses, speaks no HTTP or closes fails the request before any byte of it leaves",
        arguments: [
            ("HTTP/1.1 407 Who are you\r\nContent-Length: 5\r\n\r\nAgain", "status 407"),
            ("HTTP/1.1 403 No\r\n\r\n", "status 403"),
            ("HTTP/1.1 200 Yes\r\n\r\nHTTP/1.1 200 Yes\r\n\r\n", "does not speak HTTP"),
            ("SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"), ("", "closed the connection"),
            ("HTTP/1.1 200 ", "closed the connection"),
        ]
    )
    func refusal(answer: String, expected: String) async throws {
        try await withServer(Script.answeringOnce(answer)) { proxy in
            try await withClient(Self.proxied(proxy, user: "user:secret@")) { client, _ in
                let error = await failure(client, Self.post("http://kakao.invalid/"))
                #expect(error?.code == .proxy)
                #expect(error?.mayHaveBeenSent == false)
                #expect(error?.message.contains(expected) == true, "\(error?.message ?? "")")
                #expect(error?.message.contains("the proxy http://127.0.0.1:\(proxy.port) ") == true)
                #expect(error?.message.contains("secret") == false)
            }
            #expect(proxy.requests.count == 1)
        }
    }

    @Test("A proxy that cannot be reached is named, without its credentials")
    func unreachableProxy() async throws {
        let settings = HTTPClientSettings(proxy: HTTPProxy(url: "http://user:secret@127.0.0.1:1"))
        try await withClient(settings) { client, _ in
            let error = await failure(client, Self.post("http://kakao.invalid/"))
            #expect(error?.code == .proxy)
            let expected = "http://kakao.invalid: cannot connect to the proxy http://127.0.0.1:1: Connection refused"
            #expect(error?.message == expected)
        }
    }

    @Test("A proxy whose name has no address is named, without its credentials")
    func unknownProxy() async throws {
        var settings = HTTPClientSettings(proxy: HTTPProxy(url: "http://user:secret@proxy.example:3128"))
        settings.resolver = NameResolver { .failure(NameResolver.Failure("\($0): no such name")) }
        try await withClient(settings) { client, _ in
            let error = await failure(client, Self.post("http://kakao.invalid/"))
            #expect(error?.code == .proxy)
            let problem = "cannot resolve the name of the proxy http://proxy.example:3128: proxy.example: no such name"
            #expect(error?.message == "http://kakao.invalid: \(problem)")
        }
    }

    @Test("A proxy that hangs ends the request at the limit for connecting")
    func hangingProxy() async throws {
        try await withServer(Script.silence) { proxy in
            var settings = try Self.proxied(proxy)
            settings.connectTimeout = .milliseconds(100)
            try await withClient(settings) { client, _ in
                let error = await failure(client, Self.post("http://kakao.invalid/"))
                #expect(error?.code == .proxy)
                #expect(error?.mayHaveBeenSent == false)
                let name = "the proxy http://127.0.0.1:\(proxy.port)"
                #expect(error?.message == "http://kakao.invalid: \(name) did not respond within 100 ms")
            }
        }
    }

    @Test("A proxy whose machine or name server does not answer is named", arguments: [false, true])
    func silentProxy(isResolved: Bool) async throws {
        let gate = Gate()
        defer { gate.open() }
        let silent = try SilentListener()
        var settings = HTTPClientSettings(
            connectTimeout: .milliseconds(100),
            totalTimeout: .seconds(60),
            proxy: HTTPProxy(url: "http://user:secret@proxy.example:\(silent.port)")
        )
        settings.resolver = NameResolver { _ in
            if !isResolved { gate.wait() }
            return .success([SocketAddress("127.0.0.1")].compactMap(\.self))
        }
        try await withClient(settings) { client, _ in
            let error = await failure(client, Self.post("http://kakao.invalid/"))
            #expect(error?.code == .proxy)
            #expect(error?.mayHaveBeenSent == false)
            let name = "http://proxy.example:\(silent.port)"
            let problem =
                isResolved
                ? "the proxy \(name) did not respond" : "the name of the proxy \(name) was not resolved"
            #expect(error?.message == "http://kakao.invalid: \(problem) within 100 ms")
        }
    }

    @Test("A request can avoid the proxy, and shares no connection with those that do not")
    func avoidedProxy() async throws {
        try await withServer(Script.echo) { server in
            let script: @Sendable (RawConnection) -> Void = { connection in
                guard connection.readHead() != nil else { return }
                connection.write("HTTP/1.1 200 Yes\r\n\r\n")
                while connection.readRequest() != nil { connection.answer("through the proxy") }
            }
            try await withServer(script) { proxy in
                try await withClient(Self.proxied(proxy)) { client, _ in
                    var bodies: [String] = []
                    for avoidsProxy in [false, true, false, true] {
                        let request = HTTPClientRequest(url: server.url("/direct"), avoidsProxy: avoidsProxy)
                        let response = try await client.send(request)
                        bodies.append(String(decoding: response.body, as: UTF8.self))
                    }
                    #expect(bodies == ["through the proxy", "/direct", "through the proxy", "/direct"])
                }
                #expect(proxy.connectionCount == 1)
            }
            #expect(server.connectionCount == 1)
        }
    }

    @Test("A proxy that closes during the TLS handshake fails the request before any byte of it leaves")
    func closeDuringTLS() async throws {
        let script: @Sendable (RawConnection) -> Void = { connection in
            _ = connection.readRequest()
            connection.write("HTTP/1.1 200 Yes\r\n\r\n")
            // The client's first message.
            connection.waitForUnread("")
        }
        try await withServer(script) { proxy in
            try await withClient(Self.proxied(proxy)) { client, _ in
                let error = await failure(client, Self.post("https://kakao.invalid/"))
                #expect(error?.code == .tls)
                #expect(error?.mayHaveBeenSent == false)
            }
        }
    }

    @Test("TLS goes through the tunnel to the host, whose certificate is verified")
    func encryptedTunnel() async throws {
        try await TLSServer.run { server in
            let port = try #require(UInt16(server.port))
            let script: @Sendable (RawConnection) -> Void = { connection in
                guard let connect = connection.readRequest() else { return }
                guard connect.lines.first == "CONNECT localhost:\(port) HTTP/1.1" else { return }
                connection.write("HTTP/1.1 200 Yes\r\n\r\n")
                connection.relay(to: port)
            }
            try await withServer(script) { proxy in
                var settings = try Self.proxied(proxy)
                settings.trust = try TrustStore(file: server.certificateFile)
                try await withClient(settings) { client, _ in
                    #expect(await status(client, HTTPClientRequest(url: server.url("localhost"))) == 200)
                }
                settings.trust = .system
                try await withClient(settings) { client, _ in
                    #expect(await failure(client, Self.post(server.url("localhost")))?.code == .tls)
                }
            }
        }
    }

    @Test(
        "The URL of a proxy is http, with a host, and perhaps a port and credentials",
        arguments: [
            ("http://proxy", "http://proxy:80"), ("http://proxy:3128/", "http://proxy:3128"),
            ("HTTP://user:secret@[::1]:3128", "http://[::1]:3128"), ("http://user@10.0.0.1", "http://10.0.0.1:80"),
            ("https://proxy", nil), ("socks5://proxy", nil), ("proxy:3128", nil), ("http://", nil),
            ("http://proxy:0", nil), ("http://proxy:99999", nil), ("http://proxy/path", nil),
            ("http://a%3Ab:c@proxy", nil),
            ("http://user:%zz@proxy", nil), ("http://pro xy", nil), ("http://[::1", nil),
        ]
    )
    func proxyURL(url: String, shown: String?) {
        let proxy = HTTPProxy(url: url)
        #expect(proxy?.description == shown)
    }
}
