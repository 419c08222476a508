import EventLoop
import Glibc
import HTTPTypes
import Locking
import Net
import Synchronization
import TestSupport
import Testing

@testable import HTTPServer

// Known faults of other servers that implement their own sockets, one test per rule, over real sockets. Other suites
// test the remaining rules: parsing of lengths, fields and lines (RefusedRequestTests), slow and silent clients
// (TimeoutTests), lack of descriptors (LimitTests), clients that do not read (BackpressureTests), events for a reused
// descriptor (EventLoopTests).

private let get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
private let hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"

/// The state shared between a test and its handlers.
private final class Notes: Sendable {
    /// The number of requests for `/hidden`, which only occurs inside bodies and must never be handled.
    let hidden = Atomic(0)
    let loop = Locked<EventLoop?>(nil)
    let thread = Locked<pthread_t?>(nil)
    let gate = Gate()
    private static let large = patternedBytes(4 << 20)

    func routes(_ router: inout Router) {
        router.add(.get, "/a", .immediate { _ in .text("a") })
        router.add(.post, "/echo", .immediate { Response(.ok, body: $0.body) })
        router.add(.post, "/ignore", .immediate { _ in .text("ignored") })
        router.on(.post, "/ignore/task") { _ in
            await Task.yield()
            return .text("ignored")
        }
        router.add(
            .get,
            "/hidden",
            .immediate { [self] _ in
                hidden.add(1, ordering: .relaxed)
                return .text("hidden")
            }
        )
        router.add(.get, "/large", .immediate { _ in Response(.ok, body: Self.large) })
        router.on(.get, "/wait") { [self] _ in
            await gate.wait()
            return .text("waited")
        }
        router.add(
            .get,
            "/loop",
            .immediate { [self] request in
                loop.withLock { $0 = request.loop }
                thread.withLock { $0 = pthread_self() }
                return .text("loop")
            }
        )
    }
}

@Suite("Known faults of servers", .timeLimit(.minutes(1)))
struct KnownFaultTests {
    private let notes = Notes()

    // MARK: Responses

    @Test("Head and body of a response are sent as one packet")
    func onePacket() async throws {
        try await withServer(routes: notes.routes) { server in
            let client = try server.connect()
            let body = String(repeating: "b", count: 10_000)
            let post = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
            for _ in 0..<10 {
                #expect(try await client.exchange(get).text == "a")
                #expect(try await client.exchange(post).text == body)
            }
            let descriptor = try #require(descriptors(named: getpeername, port: server.port).first)
            #expect(try packetsReceived(descriptor) == 20)
        }
    }

    @Test("A response does not wait until the previous one is acknowledged")
    func noDelay() async throws {
        try await withServer(routes: notes.routes) { server in
            let client = try server.connect()
            #expect(try await client.exchange(get).text == "a")
            let accepted = descriptors(named: getsockname, port: server.port).filter { hasPeer($0) }
            #expect(accepted.count == 1)
            for descriptor in accepted { #expect(try option(Int32(IPPROTO_TCP), TCP_NODELAY, of: descriptor) != 0) }
        }
    }

    // MARK: Smuggling

    @Test(
        "A body that is ignored, or has no route, is never parsed as a request",
        arguments: ["/ignore", "/ignore/task", "/nothing"],
        [true, false]
    )
    func ignoredBody(path: String, isChunked: Bool) async throws {
        try await withServer(settings { $0.maximumBodyBytes = 4 << 20 }, routes: notes.routes) { server in
            let body = String(repeating: hidden, count: 3_000_000 / hidden.utf8.count)
            let size = body.utf8.count
            let client = try server.connect()
            let fields = isChunked ? "Transfer-Encoding: chunked" : "Content-Length: \(size)"
            let framed = isChunked ? "\(String(size, radix: 16))\r\n\(body)\r\n0\r\n\r\n" : body
            // The server may close before it has received everything.
            try? await client.send("POST \(path) HTTP/1.1\r\nHost: a\r\n\(fields)\r\n\r\n\(framed)")
            client.shutdownWrite()
            let answers = (try? await client.receiveToEnd()) ?? ""
            #expect(answers.ranges(of: "HTTP/1.1 ").count <= 1)
            if path != "/nothing" { #expect(answers.hasSuffix("\r\n\r\nignored")) }
            #expect(notes.hidden.load(ordering: .relaxed) == 0)
        }
    }

    @Test(
        "Ambiguous framing gets one response, and nothing after it is handled as a request",
        arguments: [
            "Content-Length: 5\r\nContent-Length: 0", "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Transfer-Encoding: identity, chunked",
            "Transfer-Encoding : chunked", "Transfer-Encoding:\u{B}chunked", "Content-Length: +0", "Content-Length: -0",
            "Content-Length: 0x0", "Content-Length: 0\u{0}", "Content-Length: 18446744073709551616",
            "Content-Length: 0,0",
            "X: a\r\n Content-Length: 5", "X: a\nContent-Length: 5", "X: a\rContent-Length: 5", "Host: b",
        ]
    )
    func smuggling(fields: String) async throws {
        try await withServer(routes: notes.routes) { server in
            let client = try server.connect()
            try await client.send("POST /echo HTTP/1.1\r\nHost: a\r\n\(fields)\r\n\r\n0\r\n\r\n" + hidden + hidden)
            let answers = try await client.receiveToEnd()
            #expect(answers.ranges(of: "HTTP/1.1 ").count == 1)
            #expect(answers.hasPrefix("HTTP/1.1 400") || answers.hasPrefix("HTTP/1.1 501"))
            #expect(notes.hidden.load(ordering: .relaxed) == 0)
        }
    }

    @Test(
        "A malformed request line gets an error and does not affect other clients",
        arguments: [
            "GET", "GET ", "GET /", "GET / ", " ", "  / HTTP/1.1", "GET / HTTP/", "GET / HTTP/1.", "GET  HTTP/1.1",
            "\t", ":",
            "GET / HTTP/2.0", "GET ? HTTP/1.1", "GET http:// HTTP/1.1", "GET % HTTP/1.1", "*", "CONNECT : HTTP/1.1",
        ]
    )
    func requestLine(line: String) async throws {
        try await withServer(routes: notes.routes) { server in
            let other = try server.connect()
            #expect(try await other.exchange(get).text == "a")
            let client = try server.connect()
            let answer = try await client.exchange(line + "\r\nHost: a\r\n\r\n")
            #expect([400, 501, 505].contains(answer.status))
            #expect(try await client.receiveToEnd() == "")
            #expect(try await other.exchange(get).text == "a")
        }
    }

    // MARK: Resource usage

    @Test("A header line of megabytes is refused at the limit, and other clients are served meanwhile")
    func largeHeader() async throws {
        try await withServer(settings { $0.lingerTimeout = .seconds(3600) }, routes: notes.routes) { server in
            let other = try server.connect()
            let client = try server.connect()
            try await client.send("GET /a HTTP/1.1\r\nHost: a\r\nX: ")
            let piece = String(repeating: "x", count: 32 * 1024)
            for _ in 0..<64 {
                try await client.send(piece)
                #expect(try await other.exchange(get).text == "a")
            }
            #expect(try await client.receive().status == 431)
        }
    }

    @Test("A declared length allocates no memory before its bytes arrive")
    func announcedLength() async throws {
        try await withServer(settings { $0.maximumBodyBytes = .max }, routes: notes.routes) { server in
            var clients: [RawClient] = []
            let before = try virtualBytes()
            for framing in [
                "Content-Length: 1099511627776\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n10000000000\r\n",
            ] {
                let client = try server.connect()
                try await client.send("POST /echo HTTP/1.1\r\nHost: a\r\n\(framing)hello")
                clients.append(client)
            }
            try await server.waitUntilAllIsRead()
            let other = try server.connect()
            #expect(try await other.exchange(get).text == "a")
            // Less than one of the two lengths, and more than concurrent tests may allocate.
            #expect(try virtualBytes() - before < 1 << 39)
        }
    }

    @Test("A loop sleeps while all of its connections wait")
    func idleLoop() async throws {
        let limits = patient { settings in
            settings.maximumConnections = 6
            // No connection of theirs is closed to make room.
            settings.trustedProxies = TrustedProxies("127.0.0.1") ?? .none
        }
        try await withServer(limits, routes: notes.routes) { server in
            let idle = try server.connect()
            #expect(try await idle.exchange("GET /loop HTTP/1.1\r\nHost: a\r\n\r\n").text == "loop")
            let halfClosed = try server.connect()
            try await halfClosed.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
            halfClosed.shutdownWrite()
            let ahead = try server.connect()
            try await ahead.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n" + String(repeating: get, count: 8000))
            let unread = try server.connect(receiveBuffer: 4096)
            try await unread.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            let refused = try server.connect()
            #expect(try await refused.exchange("NONSENSE\r\n\r\n").status == 400)
            let silent = try server.connect()
            // There is no place for this one, so the listener stays ready to accept.
            let waiting = try server.connect()
            try await waiting.send(get)
            // The events above have been processed when this request is answered, or soon after.
            #expect(try await idle.exchange(get).text == "a")
            #expect(try await busyTime(for: .milliseconds(500)) < .milliseconds(100))
            #expect(!silent.hasInput)
            #expect(!waiting.hasInput)
            notes.gate.open()
            #expect(try await halfClosed.receive().text == "waited")
        }
    }

    @Test("Stalled handshakes delay no other client, and neither they nor plain HTTP keep the loop busy")
    func stuckHandshakes() async throws {
        try await withSecureServer(routes: notes.routes) { server, certificateFile in
            var stuck: [RawClient] = []
            for length in [0, 1, 3, 20, clientHello.count] {
                for _ in 0..<4 {
                    let client = try server.connect()
                    if length > 0 { try await client.send(Array(clientHello[..<length])) }
                    stuck.append(client)
                }
            }
            let plain = try server.connect()
            #expect(try await plain.exchange(get).status == 400)
            let url = "https://127.0.0.1:\(server.port)/loop"
            let command = ["curl", "--disable", "--silent", "--show-error", "--noproxy", "*", "--max-time", "20"]
            let result = try await Program.run(command + ["--cacert", certificateFile, url])
            #expect(result.text == "loop")
            #expect(try await busyTime(for: .milliseconds(500)) < .milliseconds(100))
            #expect(!stuck[0].hasInput)
            // The server's part of the handshake has arrived.
            #expect(stuck[stuck.count - 1].hasInput)
        }
    }

    /// Returns the processor time that the loop uses while it has nothing to do. A loop that spins uses all that it gets.
    private func busyTime(for duration: Duration) async throws -> Duration {
        let loop = try #require(notes.loop.withLock { $0 })
        return await withCheckedContinuation { continuation in
            loop.execute {
                let start = ProcessorTime.ofThread
                loop.schedule(after: duration) { continuation.resume(returning: ProcessorTime.ofThread - start) }
            }
        }
    }

    // MARK: Connections that end

    @Test(
        "A reset connection releases its place at once, in any state",
        arguments: [
            "", "GET /a HT", get, get + "GET", "GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello", "NONSENSE\r\n\r\n",
            "POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello",
        ]
    )
    func reset(sent: String) async throws {
        try await withServer(patient { $0.maximumConnections = 1 }, routes: notes.routes) { server in
            for _ in 0..<10 {
                let client = try server.connect(receiveBuffer: 4096)
                client.resetOnClose()
                if !sent.isEmpty { try await client.send(sent) }
                try await server.waitUntilAllIsRead()
            }
            let next = try server.connect()
            #expect(try await next.exchange(get).text == "a")
        }
    }

    @Test("A connection that reuses a descriptor's number gets no response of the previous one", arguments: [1, 2])
    func successors(loops: Int) async throws {
        try await withServer(loops: loops, routes: notes.routes) { server in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for worker in 0..<8 {
                    group.addTask {
                        for turn in 0..<40 {
                            let text = "\(worker) \(turn)"
                            let post =
                                "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)"
                            let client = try server.connect()
                            if turn % 2 == 0 {
                                client.resetOnClose()
                                try await client.send(post + post)
                            } else {
                                #expect(try await client.exchange(post).text == text)
                                #expect(!client.hasInput)
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    // Each of these runs in a separate process, because signals, limits and descriptors belong to the process.

    @Test("Writing to a closed connection ends the connection, not the process")
    func brokenPipe() async {
        await #expect(processExitsWith: .success) { try await writeToPeersThatAreGone() }
    }

    @Test("A signal during a wait ends no connection")
    func interruptedWait() async {
        await #expect(processExitsWith: .success) { try await interruptTheLoop() }
    }

    @Test("Hundreds of plain and TLS connections that come and go leak no socket")
    func churn() async {
        await #expect(processExitsWith: .success) { try await comeAndGo() }
    }

    @Test("Descriptors above 1024 work")
    func highDescriptors() async {
        await #expect(processExitsWith: .success) { try await serveOnHighDescriptors() }
    }
}

private struct Failed: Error {
    let what: String
}

private func writeToPeersThatAreGone() async throws {
    signal(SIGPIPE, SIG_DFL)
    let notes = Notes()
    try await withServer(patient { _ in }, routes: notes.routes) { server in
        for _ in 0..<30 {
            let client = try server.connect(receiveBuffer: 4096)
            client.resetOnClose()
            try await client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            while !client.hasInput { await Task.yield() }
            // A reset after this end causes EPIPE; without the end it would cause ECONNRESET.
            client.shutdownWrite()
        }
        try await server.waitForConnections(atMost: 0)
        guard try await server.connect().exchange(get).text == "a" else { throw Failed(what: "not served") }
    }
    try await withSecureServer(routes: notes.routes) { server, _ in
        for _ in 0..<30 {
            let client = try server.connect()
            client.resetOnClose()
            try await client.send(clientHello)
            client.shutdownWrite()
        }
        try await server.waitForConnections(atMost: 0)
        guard try await server.connect().exchange(get).status == 400 else { throw Failed(what: "not served") }
    }
}

private func interruptTheLoop() async throws {
    var action = sigaction()
    action.__sigaction_handler.sa_handler = { _ in }
    guard sigaction(SIGUSR1, &action, nil) == 0 else { throw SystemError(call: "sigaction") }
    let notes = Notes()
    try await withServer(routes: notes.routes) { server in
        let client = try server.connect()
        _ = try await client.exchange("GET /loop HTTP/1.1\r\nHost: a\r\n\r\n")
        guard let thread = notes.thread.withLock({ $0 }) else { throw Failed(what: "no thread") }
        for _ in 0..<500 {
            guard pthread_kill(thread, SIGUSR1) == 0 else { throw Failed(what: "no signal") }
            guard try await client.exchange(get).text == "a" else { throw Failed(what: "not served") }
        }
    }
}

private func comeAndGo() async throws {
    let notes = Notes()
    try await withServer(settings { $0.maximumConnections = 50 }, loops: 2, routes: notes.routes) { plain in
        try await withSecureServer(routes: notes.routes) { secure, _ in
            // The first round opens everything that is opened only once.
            try await comeAndGo(100, plain, secure)
            let before = openSockets()
            try await comeAndGo(800, plain, secure)
            // The clients close their ends asynchronously.
            try await eventually("the sockets are closed") { openSockets() <= before }
        }
    }
}

private func comeAndGo(_ count: Int, _ plain: TestServer, _ secure: TestServer) async throws {
    for index in 0..<count {
        let client = try index % 4 == 0 ? secure.connect() : plain.connect()
        switch index % 8 {
        case 0: try await client.send(clientHello)
        case 1: _ = try await client.exchange(get)
        case 2: _ = try await client.exchange("NONSENSE\r\n\r\n")
        case 3: try await client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
        case 4: try await client.send(Array(clientHello[..<(index / 8 % clientHello.count + 1)]))
        case 5:
            try await client.send(get + get)
            client.resetOnClose()
        case 6: try await client.send("GET /a HT")
        default: break
        }
    }
    for server in [plain, secure] {
        try await server.waitForConnections(atMost: 0)
    }
}

private func serveOnHighDescriptors() async throws {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else {
        throw SystemError(call: "getrlimit")
    }
    limit.rlim_cur = min(4096, limit.rlim_max)
    guard setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else {
        throw SystemError(call: "setrlimit")
    }
    var last: Int32 = 0
    while last < 1100 {
        last = open("/dev/null", O_RDONLY | O_CLOEXEC)
        guard last >= 0 else { throw SystemError(call: "open") }
    }
    let notes = Notes()
    try await withServer(routes: notes.routes) { server in
        for _ in 0..<20 {
            guard try await server.connect().exchange(get).text == "a" else { throw Failed(what: "not served") }
        }
    }
}

// MARK: Servers

/// Returns settings whose timeouts cannot expire during a test, except those that `change` shortens.
private func patient(_ change: (inout HTTPServerSettings) -> Void) -> HTTPServerSettings {
    settings { settings in
        settings.headerTimeout = .seconds(3600)
        settings.bodyTimeout = .seconds(3600)
        settings.idleTimeout = .seconds(3600)
        settings.lingerTimeout = .seconds(3600)
        change(&settings)
    }
}

private func withSecureServer(
    routes: (inout Router) -> Void,
    _ body: (TestServer, _ certificateFile: String) async throws -> Void
) async throws {
    let own = try SelfSignedCertificate()
    let directory = try TemporaryFolder.make()
    let certificateFile = try writeFile(own.certificate, to: "\(directory)/certificate.pem")
    let context = try TLSContext(certificateChain: own.certificate, privateKey: own.privateKey)
    try await withServer(patient { $0.tls = context }, routes: routes) { try await body($0, certificateFile) }
}

/// The first message of a TLS 1.2 handshake (RFC 5246 §7.4.1.2), with the minimum to which a server responds.
private let clientHello: [UInt8] = {
    let extensions: [UInt8] =
        [0x00, 0x0A, 0x00, 0x06, 0x00, 0x04, 0x00, 0x1D, 0x00, 0x17]  // Groups: X25519, P-256.
        + [0x00, 0x0B, 0x00, 0x02, 0x01, 0x00]  // Points: uncompressed.
        + [0x00, 0x0D, 0x00, 0x0A, 0x00, 0x08, 0x04, 0x03, 0x08, 0x04, 0x04, 0x01, 0x08, 0x07]  // Signatures.
    let suites: [UInt8] = [0xC0, 0x2B, 0xC0, 0x2F, 0xC0, 0x2C, 0xC0, 0x30, 0xCC, 0xA8, 0xCC, 0xA9]
    let hello: [UInt8] =
        [0x03, 0x03] + [UInt8](repeating: 0x5A, count: 32) + [0x00]
        + [0x00, UInt8(suites.count)] + suites + [0x01, 0x00]
        + [0x00, UInt8(extensions.count)] + extensions
    return [0x16, 0x03, 0x01, 0x00, UInt8(hello.count + 4), 0x01, 0x00, 0x00, UInt8(hello.count)] + hello
}()

// MARK: Information from the kernel

/// Returns the process's sockets whose local or peer address has this port, depending on `name`.
private func descriptors(
    named name: (Int32, UnsafeMutablePointer<sockaddr>?, UnsafeMutablePointer<socklen_t>?) -> Int32,
    port: Int
) -> [Int32] {
    (0..<4096 as Range<Int32>).filter { descriptor in
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { name(descriptor, $0, &length) }
        }
        return result == 0 && address.sin_family == sa_family_t(AF_INET)
            && address.sin_port.bigEndian == in_port_t(port)
    }
}

private func hasPeer(_ descriptor: Int32) -> Bool {
    var address = sockaddr_in()
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    return withUnsafeMutablePointer(to: &address) { address in
        address.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &length) }
    } == 0
}

private func option(_ level: Int32, _ name: Int32, of descriptor: Int32) throws -> Int32 {
    var value: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    guard getsockopt(descriptor, level, name, &value, &length) == 0 else { throw SystemError(call: "getsockopt") }
    return value
}

/// Returns the number of packets with data that a TCP socket has received.
private func packetsReceived(_ descriptor: Int32) throws -> UInt32 {
    // The offset of `tcpi_data_segs_in` in the kernel's `struct tcp_info`. The C library's struct is shorter.
    let offset = 152
    var bytes = [UInt8](repeating: 0, count: 512)
    var length = socklen_t(bytes.count)
    guard getsockopt(descriptor, Int32(IPPROTO_TCP), TCP_INFO, &bytes, &length) == 0, length >= offset + 4 else {
        throw SystemError(call: "getsockopt")
    }
    return bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: UInt32.self) }
}

private func openSockets() -> Int {
    (0..<1024 as Range<Int32>).count { (try? option(SOL_SOCKET, SO_TYPE, of: $0)) != nil }
}

/// Returns the size of the process's address space.
private func virtualBytes() throws -> Int {
    guard let file = fopen("/proc/self/statm", "re") else { throw SystemError(call: "fopen") }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 256)
    guard fgets(&line, Int32(line.count), file) != nil else { throw SystemError(call: "fgets") }
    let pages = Int(
        String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self).split(separator: " ")[0]
    )
    return (pages ?? 0) * sysconf(Int32(_SC_PAGESIZE))
}
