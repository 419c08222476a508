import HTTPTypes
import Net
import TestSupport
import Testing

@testable import HTTPServer

/// A TLS server, its certificate file, and the two programs that connect to it.
private struct SecureServer {
    let server: TestServer
    let certificateFile: String
    /// Opened when `/wait` is being handled. Its response is sent when `gate` is opened.
    let waiting: Gate
    let gate: Gate

    func curl(_ arguments: String..., port: Int? = nil, path: String = "/a") async throws -> Program.Result {
        let common = ["curl", "--disable", "--silent", "--show-error", "--noproxy", "*", "--max-time", "20"]
        let url = "https://127.0.0.1:\(port ?? server.port)\(path)"
        return try await Program.run(common + ["--cacert", certificateFile] + arguments + [url])
    }

    /// Sends `input` and reads until the server closes.
    func openssl(_ arguments: String..., input: String) async throws -> Program.Result {
        let common = ["openssl", "s_client", "-connect", "127.0.0.1:\(server.port)", "-CAfile", certificateFile]
        return try await Program.run(common + ["-verify_return_error", "-ign_eof"] + arguments, input: input)
    }
}

private let last = "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

private func routes(_ router: inout Router, waiting: Gate, gate: Gate) {
    router.on(.get, "/wait") { _ in
        waiting.open()
        await gate.wait()
        return .text("waited")
    }
    router.add(.get, "/a", .immediate { .text("secure: \($0.isSecure)") })
    router.on(.get, "/task") { _ in
        await Task.yield()
        return .text("task")
    }
    router.add(.post, "/echo", .immediate { Response(.ok, body: $0.body) })
}

private func withSecureServer(
    headerTimeout: Duration = .seconds(10),
    _ body: (SecureServer, String) async throws -> Void
) async throws {
    let own = try SelfSignedCertificate()
    let directory = try TemporaryFolder.make()
    let certificateFile = try writeFile(own.certificate, to: "\(directory)/certificate.pem")
    let context = try TLSContext(certificateChain: own.certificate, privateKey: own.privateKey)
    let settings = settings { settings in
        settings.tls = context
        settings.headerTimeout = headerTimeout
    }
    let (waiting, gate) = (Gate(), Gate())
    func allRoutes(_ router: inout Router) {
        routes(&router, waiting: waiting, gate: gate)
    }
    try await withServer(settings, routes: allRoutes) { server in
        let secure = SecureServer(server: server, certificateFile: certificateFile, waiting: waiting, gate: gate)
        try await body(secure, directory)
    }
}

@Suite("Requests over TLS", .timeLimit(.minutes(1)))
struct TLSServerTests {
    @Test(
        "TLS 1.2 and 1.3 work, with a verified certificate and HTTP/1.1 by ALPN",
        arguments: ["1.2", "1.3"]
    )
    func versions(version: String) async throws {
        try await withSecureServer { server, _ in
            let result = try await server.curl("--verbose", "--tlsv\(version)", "--tls-max", version)
            #expect(result.status == 0)
            #expect(result.text.contains("secure: true"))
            #expect(result.text.contains("SSL connection using TLSv\(version)"))
            #expect(result.text.contains("server accepted http/1.1"))
        }
    }

    @Test("TLS 1.1 is refused")
    func oldVersion() async throws {
        try await withSecureServer { server, _ in
            let old = try await server.openssl("-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0", input: last)
            #expect(!old.text.contains("secure: true"))
            #expect(old.text.contains("alert protocol version"))
        }
    }

    @Test("A client that does not offer HTTP/1.1 by ALPN is refused")
    func otherProtocol() async throws {
        try await withSecureServer { server, _ in
            let result = try await server.openssl("-alpn", "h2", input: last)
            #expect(result.text.contains("no application protocol"))
            #expect(!result.text.contains("secure: true"))
        }
    }

    @Test(
        "A connection serves pipelined requests and ends with a close_notify",
        arguments: ["-tls1_2", "-tls1_3"]
    )
    func pipelining(version: String) async throws {
        try await withSecureServer { server, _ in
            let task = "GET /task HTTP/1.1\r\nHost: a\r\n\r\n"
            let result = try await server.openssl(version, "-quiet", input: task + task + last)
            #expect(result.text.ranges(of: "\r\n\r\ntask").count == 2)
            #expect(result.text.contains("\r\n\r\nsecure: true"))
            // OpenSSL's message for a connection that ends without close_notify.
            #expect(!result.text.contains("unexpected eof"))
            #expect(result.status == 0)
        }
    }

    @Test(
        "Bodies larger than a record and the socket's buffers arrive intact in both directions",
        arguments: ["1.2", "1.3"]
    )
    func largeBodies(version: String) async throws {
        try await withSecureServer { server, directory in
            let body = patternedBytes(1 << 20)
            let file = try writeFile(body, to: "\(directory)/body")
            let arguments = ["--data-binary", "@\(file)"]
            let result = try await server.curl("--tls-max", version, arguments[0], arguments[1], path: "/echo")
            #expect(result.status == 0)
            #expect(result.output == body)
        }
    }

    @Test("A session is resumed", arguments: ["-tls1_2", "-tls1_3"])
    func resumption(version: String) async throws {
        try await withSecureServer { server, directory in
            let session = "\(directory)/session.pem"
            let first = try await server.openssl(version, "-sess_out", session, input: last)
            #expect(first.text.contains("New, TLSv1"))
            #expect(first.text.contains("secure: true"))
            let second = try await server.openssl(version, "-sess_in", session, input: last)
            #expect(second.text.contains("Reused, TLSv1"))
            #expect(second.text.contains("secure: true"))
        }
    }

    @Test("A handshake that arrives byte by byte is not mistaken for plain HTTP")
    func byteByByte() async throws {
        try await withSecureServer { server, _ in
            let relay = try ByteRelay(to: server.server.port)
            relay.start()
            let result = try await server.curl(port: relay.port)
            #expect(result.text == "secure: true")
        }
    }

    @Test("Plain HTTP is detected only in the first bytes of a connection")
    func lettersLater() async throws {
        try await withSecureServer { server, _ in
            let client = try server.server.connect()
            try await client.send([0x16])
            try await eventually("the server has read it") {
                try ServerSocket.all(port: server.server.port).map(\.unread) == [0]
            }
            try await client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.receiveToEnd().contains("HTTP/1.1") == false)
        }
    }

    @Test("Plain HTTP on the TLS port gets one error response in plain HTTP")
    func plainHTTP() async throws {
        try await withSecureServer { server, _ in
            let client = try server.server.connect()
            let answer = try await client.exchange("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(answer.status == 400)
            #expect(answer["connection"] == "close")
            #expect(answer["x-request-id"] != nil)
            #expect(answer.text.contains("use https://"))
            try? await client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("Bytes that are neither TLS nor HTTP get an alert, and the connection is closed")
    func garbage() async throws {
        try await withSecureServer { server, _ in
            let client = try server.server.connect()
            try await client.send([0x16, 0x03, 0x01, 0x00, 0x05, 0x01, 0xFF, 0xFF, 0xFF, 0xFF])
            #expect(try await client.receiveToEnd().utf8.first == 0x15)
        }
    }

    @Test(
        "A connection with an incomplete handshake is closed after the header timeout",
        arguments: [[], [0x16], [0x16, 0x03, 0x01]]
    )
    func slowHandshake(bytes: [UInt8]) async throws {
        try await withSecureServer(headerTimeout: .milliseconds(100)) { server, _ in
            let client = try server.server.connect()
            if !bytes.isEmpty { try await client.send(bytes) }
            #expect(try await client.receiveToEnd() == "")
        }
    }

    @Test("A new certificate applies to new connections only")
    func reload() async throws {
        try await withSecureServer { server, directory in
            async let kept = server.openssl("-quiet", input: "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n" + last)
            await server.waiting.wait()
            let other = try SelfSignedCertificate()
            let otherFile = try writeFile(other.certificate, to: "\(directory)/other.pem")
            let context = try TLSContext(certificateChain: other.certificate, privateKey: other.privateKey)
            await server.server.server.apply(settings { $0.tls = context })
            #expect(try await server.curl("--cacert", otherFile).text == "secure: true")
            #expect(try await server.curl().status != 0)
            server.gate.open()
            let text = try await kept.text
            #expect(text.contains("waited"))
            #expect(text.contains("secure: true"))
        }
    }

    @Test("A client that does not trust the certificate fails, and the server keeps running")
    func untrusted() async throws {
        try await withSecureServer { server, directory in
            let other = try writeFile(SelfSignedCertificate().certificate, to: "\(directory)/other.pem")
            let refused = try await server.curl("--cacert", other)
            #expect(refused.status != 0)
            #expect(try await server.curl().text == "secure: true")
        }
    }
}
