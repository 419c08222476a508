import EventLoop
import HTTPTypes
import Locking
import Logging
import Net
import Synchronization
import TestSupport
import Testing

@testable import HTTPServer

private let get = "GET /small HTTP/1.1\r\nHost: a\r\n\r\n"

/// The state of a handler as observed by a test.
private final class Observation: Sendable {
    let entered = Gate()
    let finished = Gate()
    private let count = Atomic(0)
    private let cancelled = Atomic(false)

    var bytes: Int { count.load(ordering: .relaxed) }
    var isCancelled: Bool { cancelled.load(ordering: .relaxed) }

    func note(_ bytes: Int) { count.add(bytes, ordering: .relaxed) }
    func noteCancellation() { cancelled.store(true, ordering: .relaxed) }
}

@Suite("Streamed bodies and responses", .timeLimit(.minutes(1)))
struct StreamingTests {
    private func small(_ router: inout Router) {
        router.add(.get, "/small", .immediate { _ in .text("small") })
    }

    // MARK: Bodies

    @Test(
        "A streamed body may far exceed the limit for buffered bodies, and the connection is kept",
        arguments: [false, true]
    )
    func longBody(isChunked: Bool) async throws {
        let pattern = patternedBytes(4 << 20)
        func routes(_ router: inout Router) {
            small(&router)
            router.on(.put, "/length") { request, body in
                var received: [UInt8] = []
                for try await piece in body { received += piece }
                return .text(received == pattern ? "\(received.count)" : "damaged")
            }
        }
        try await withServer(settings { $0.maximumBodyBytes = 1024 }, routes: routes) { server in
            let client = try server.connect()
            if isChunked {
                try await client.send("PUT /length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
                for start in stride(from: 0, to: pattern.count, by: 100_000) {
                    let piece = pattern[start..<min(start + 100_000, pattern.count)]
                    try await client.send(
                        Array("\(String(piece.count, radix: 16))\r\n".utf8) + piece + Array("\r\n".utf8)
                    )
                }
                try await client.send("0\r\n\r\n" + get)
            } else {
                try await client.send("PUT /length HTTP/1.1\r\nHost: a\r\nContent-Length: \(pattern.count)\r\n\r\n")
                try await client.send(pattern)
                try await client.send(get)
            }
            #expect(try await client.receive().text == "\(pattern.count)")
            #expect(try await client.receive().text == "small")
        }
    }

    @Test("The handler is called before the body has arrived, and may respond to its first piece")
    func earlyCall() async throws {
        let observation = Observation()
        func routes(_ router: inout Router) {
            router.on(.post, "/first") { _, body in
                observation.entered.open()
                for try await piece in body { return Response(.ok, body: piece) }
                return .text("none")
            }
        }
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            try await client.send("POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
            await observation.entered.wait()
            #expect(try await client.exchange("hello").text == "hello")
            // The rest of that body is not parsed as the next request.
            try await client.send("GET /" + "POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
            #expect(try await client.receive().text == "none")
        }
    }

    @Test("Back pressure stops a client that sends faster than the handler reads")
    func heldBack() async throws {
        let gate = Gate()
        let observation = Observation()
        func routes(_ router: inout Router) {
            small(&router)
            router.on(.put, "/slow") { _, body in
                observation.entered.open()
                await gate.wait()
                for try await piece in body { observation.note(piece.count) }
                return .text("\(observation.bytes)")
            }
        }
        try await withServer(routes: routes) { server in
            let length = 64 << 20
            let client = try server.connect()
            let sent = Atomic(0)
            try await client.send("PUT /slow HTTP/1.1\r\nHost: a\r\nContent-Length: \(length)\r\n\r\n")
            async let sending: Void = {
                let piece = [UInt8](repeating: 0x61, count: 1 << 20)
                for _ in 0..<64 {
                    try await client.send(piece)
                    sent.add(piece.count, ordering: .relaxed)
                }
            }()
            await observation.entered.wait()
            try await serverHoldsStill(server.port)
            #expect(sent.load(ordering: .relaxed) < length / 2)
            gate.open()
            try await sending
            #expect(try await client.receive().text == "\(length)")
        }
    }

    /// Waits until the number of bytes unread by the server stops growing.
    private func serverHoldsStill(_ port: Int) async throws {
        var before = -1
        while true {
            let now = try ServerSocket.all(port: port).map(\.unread).reduce(0, +)
            if now == before, now > 0 { return }
            before = now
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    @Test("A slow handler does not use up the client's body timeout")
    func patience() async throws {
        let gate = Gate()
        let observation = Observation()
        func routes(_ router: inout Router) {
            router.on(.put, "/slow") { _, body in
                observation.entered.open()
                await gate.wait()
                for try await piece in body { observation.note(piece.count) }
                return .text("\(observation.bytes)")
            }
        }
        let impatient = settings { settings in
            // Long enough for the request to arrive, even on a busy machine.
            settings.bodyTimeout = .seconds(2)
            settings.headerTimeout = .seconds(2)
        }
        try await withServer(impatient, routes: routes) { server in
            let client = try server.connect()
            let head = Array("PUT /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n".utf8)
            try await client.send(head + [UInt8](repeating: 0x61, count: 200_000))
            await observation.entered.wait()
            // Waits as long as the client's body timeout.
            #expect(try await server.connect().receiveToEnd() == "")
            gate.open()
            let answer = try await client.receive()
            #expect(answer.status == 200)
            #expect(answer.text == "200000")
        }
    }

    @Test("A malformed, too large or too slow body fails the iteration and gets an error response")
    func badBody() async throws {
        func routes(_ router: inout Router) {
            router.on(.put, "/ten", upTo: 10) { _, body in
                for try await _ in body {}
                return .text("read")
            }
        }
        try await withServer(settings { $0.bodyTimeout = .milliseconds(100) }, routes: routes) { server in
            let chunked = "PUT /ten HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            for (body, status) in [
                ("5\r\nhello\r\n-5\r\n", 400), ("8\r\n01234567\r\n8\r\n01234567\r\n", 413), ("5\r\nhel", 408),
            ] {
                let client = try server.connect()
                let answer = try await client.exchange(chunked + body)
                #expect(answer.status == status)
                #expect(answer["connection"] == "close")
                #expect(try await client.receiveToEnd() == "")
            }
            let client = try server.connect()
            #expect(
                try await client.exchange("PUT /ten HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n").status == 413
            )
        }
    }

    @Test("100 Continue is sent only if the handler reads the body")
    func expectation() async throws {
        func routes(_ router: inout Router) {
            router.on(.put, "/read") { _, body in
                var count = 0
                for try await piece in body { count += piece.count }
                return .text("\(count)")
            }
            router.on(.put, "/refuse") { _, _ in throw Problem(.forbidden, "No.") }
        }
        try await withServer(routes: routes) { server in
            let fields = "Host: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
            let client = try server.connect()
            #expect(try await client.exchange("PUT /read HTTP/1.1\r\n\(fields)").status == 100)
            #expect(try await client.exchange("hello").text == "5")
            let refused = try await client.exchange("PUT /refuse HTTP/1.1\r\n\(fields)")
            #expect(refused.status == 403)
            #expect(refused["connection"] == "close")
        }
    }

    @Test("A slow body of any length is read only as long as it keeps the minimum rate")
    func minimumRate() async throws {
        func routes(_ router: inout Router) {
            router.on(.put, "/length") { _, body in
                var count = 0
                for try await piece in body { count += piece.count }
                return .text("\(count)")
            }
        }
        let rated = settings { settings in
            // Long enough for a busy machine to forward 2,000 bytes of the fast client.
            settings.bodyTimeout = .seconds(4)
            settings.minimumBytesPerSecond = 500
        }
        try await withServer(rated, routes: routes) { server in
            let (slow, fast) = (try server.connect(), try server.connect())
            let head = "PUT /length HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"
            let isOver = Gate()
            // One byte at a time is progress, but below the minimum rate.
            async let trickled: Void = slow.trickle(head, 1, until: isOver, of: 1_000_000)
            async let sent: Void = fast.trickle(head, 1000, until: isOver, of: 1_000_000)
            #expect(try await slow.receive().status == 408)
            isOver.open()
            // It had the same timeout as the slow client; only its bytes extended it.
            #expect(try await fast.receive().text == "1000000")
            _ = try await (trickled, sent)
        }
    }

    // MARK: Responses

    @Test("A streamed response arrives in pieces and complete, followed by the next response")
    func pieces() async throws {
        let gate = Gate()
        func routes(_ router: inout Router) {
            small(&router)
            router.add(
                .get,
                "/pieces",
                .immediate { _ in
                    Response(.ok, contentType: "text/event-stream") { writer in
                        try await writer.write(Array("first".utf8))
                        try await writer.write([])
                        await gate.wait()
                        try await writer.write(Array("second".utf8))
                    }
                }
            )
        }
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            try await client.send("GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n" + get)
            let head = try await client.receive(until: "5\r\nfirst\r\n")
            #expect(head.contains("Transfer-Encoding: chunked\r\n"))
            #expect(!head.contains("Content-Length"))
            gate.open()
            #expect(try await client.receive(until: "0\r\n\r\n") == "6\r\nsecond\r\n0\r\n\r\n")
            #expect(try await client.receive().text == "small")
            #expect(try await client.exchange("GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n").text == "firstsecond")
            let answer = try await client.exchange("HEAD /pieces HTTP/1.1\r\nHost: a\r\n\r\n" + get)
            #expect(answer.status == 200)
            #expect(answer["content-type"] == "text/event-stream")
            #expect(try await client.receive().text == "small")
        }
    }

    @Test("An HTTP/1.0 client gets unchunked pieces that end with the connection")
    func piecesToHTTP10() async throws {
        func routes(_ router: inout Router) {
            router.on(.get, "/pieces") { _ in
                Response(.ok) { writer in
                    try await writer.write(Array("first".utf8))
                    try await writer.write(Array("second".utf8))
                }
            }
        }
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            try await client.send("GET /pieces HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            let answer = try await client.receiveToEnd()
            #expect(answer.contains("\r\nConnection: close\r\n"))
            #expect(!answer.contains("chunked"))
            #expect(answer.hasSuffix("\r\n\r\nfirstsecond"))
        }
    }

    @Test("An HTTP/1.0 client that gets a part of a body sees that the rest is missing")
    func cutOffToHTTP10() async throws {
        struct Failure: Error {}
        func routes(_ router: inout Router) {
            router.on(.get, "/pieces") { _ in
                Response(.ok) { writer in
                    try await writer.write(Array("first".utf8))
                    throw Failure()
                }
            }
        }
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            try await client.send("GET /pieces HTTP/1.0\r\n\r\n")
            await #expect(throws: SystemError.self) { try await client.receiveToEnd() }
        }
    }

    @Test("A writer waits for a slow client, and the client gets everything")
    func slowReader() async throws {
        let observation = Observation()
        let piece = patternedBytes(32 * 1024)
        let count = 1024
        func routes(_ router: inout Router) {
            small(&router)
            router.on(.get, "/pieces") { _ in
                Response(.ok) { writer in
                    for _ in 0..<count {
                        try await writer.write(piece)
                        observation.note(piece.count)
                        observation.entered.open()
                    }
                }
            }
        }
        try await withServer(routes: routes) { server in
            let slow = try server.connect(receiveBuffer: 4096)
            try await slow.send("GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n")
            await observation.entered.wait()
            let other = try server.connect()
            for _ in 0..<100 { #expect(try await other.exchange(get).text == "small") }
            // The kernel buffers a few megabytes per connection at most.
            #expect(observation.bytes < piece.count * count / 2)
            let body = try await slow.receive().body
            #expect(body.count == piece.count * count)
            #expect(body[(body.count - piece.count)...].elementsEqual(piece))
        }
    }

    @Test("Pieces written in one tick are not lost when the response echoes the request's body")
    func echo() async throws {
        let pattern = patternedBytes(1 << 20)
        func routes(_ router: inout Router) {
            router.on(.post, "/echo") { _, body in
                var pieces: [[UInt8]] = []
                for try await piece in body { pieces.append(piece) }
                let received = pieces
                return Response(.ok) { writer in
                    for piece in received { try await writer.write(piece) }
                }
            }
        }
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            try await client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: \(pattern.count)\r\n\r\n")
            async let sending: Void = client.send(pattern)
            #expect(try await client.receive().body == pattern)
            try await sending
        }
    }

    @Test("A response whose writer fails is cut off without an end, and the cause is logged")
    func failingWriter() async throws {
        struct Broken: Error {}
        func routes(_ router: inout Router) {
            router.on(.get, "/pieces") { _ in
                Response(.ok) { writer in
                    try await writer.write(Array("first".utf8))
                    throw Broken()
                }
            }
        }
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            try await client.send("GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n")
            let answer = try? await client.receiveToEnd()
            #expect(answer?.hasSuffix("0\r\n\r\n") != true)
            let line = await server.log.line { $0.message == "Response cut off" }
            #expect(line.level == .error)
        }
    }

    @Test("A writer that outlives its response cannot write")
    func lateWriter() async throws {
        let kept = Locked<ResponseBodyWriter?>(nil)
        func routes(_ router: inout Router) {
            small(&router)
            router.on(.get, "/keep") { _ in Response(.ok) { writer in kept.withLock { $0 = writer } } }
            router.on(.get, "/pieces") { _ in
                Response(.ok) { writer in
                    let old = kept.withLock { $0 }
                    await #expect(throws: CancellationError.self) { try await old?.write(Array("late".utf8)) }
                    try await writer.write(Array("mine".utf8))
                }
            }
        }
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            #expect(try await client.exchange("GET /keep HTTP/1.1\r\nHost: a\r\n\r\n").text == "")
            #expect(try await client.exchange("GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n").text == "mine")
            #expect(try await client.exchange(get).text == "small")
            // The writer retains its connection, which retains the server with these handlers.
            kept.withLock { $0 = nil }
        }
    }

    // MARK: Clients that go away

    /// The ways in which a client goes away.
    enum Departure: CaseIterable {
        case close, reset, shutdown
    }

    @Test("A client that goes away cancels the task of its handler", arguments: Departure.allCases)
    func cancelsHandler(departure: Departure) async throws {
        let observation = Observation()
        func routes(_ router: inout Router) {
            router.on(.get, "/slow") { request in
                observation.entered.open()
                defer { observation.finished.open() }
                do {
                    try await request.loop.sleep(for: .seconds(3600))
                } catch {
                    observation.noteCancellation()
                }
                return .text("too late")
            }
        }
        try await leaving(departure, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n", observation, routes)
        #expect(observation.isCancelled)
    }

    @Test("A client that goes away cancels the task that reads its body", arguments: Departure.allCases)
    func cancelsBody(departure: Departure) async throws {
        let observation = Observation()
        func routes(_ router: inout Router) {
            router.on(.put, "/body") { _, body in
                defer { observation.finished.open() }
                do {
                    for try await _ in body { observation.entered.open() }
                } catch is CancellationError {
                    observation.noteCancellation()
                }
                return .text("too late")
            }
        }
        try await leaving(
            departure,
            "PUT /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello",
            observation,
            routes
        )
        #expect(observation.isCancelled)
    }

    @Test(
        "A client that goes away cancels the task that writes its response, in any wait",
        arguments: Departure.allCases,
        [false, true]
    )
    func cancelsWriter(departure: Departure, waitsForRoom: Bool) async throws {
        let observation = Observation()
        let piece = [UInt8](repeating: 0x61, count: waitsForRoom ? 1 << 20 : 10)
        func routes(_ router: inout Router) {
            router.on(.get, "/pieces") { request in
                Response(.ok) { writer in
                    defer { observation.finished.open() }
                    do {
                        if waitsForRoom {
                            observation.entered.open()
                            while true { try await writer.write(piece) }
                        } else {
                            try await writer.write(piece)
                            observation.entered.open()
                            try await request.loop.sleep(for: .seconds(3600))
                        }
                    } catch {
                        observation.noteCancellation()
                        throw error
                    }
                }
            }
        }
        try await leaving(
            departure,
            "GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n",
            observation,
            routes,
            reads: !waitsForRoom
        )
        #expect(observation.isCancelled)
    }

    /// Sends `request`, goes away while its handler is running, and waits until the handler has ended.
    private func leaving(
        _ departure: Departure,
        _ request: String,
        _ observation: Observation,
        _ routes: (inout Router) -> Void,
        reads: Bool = false
    ) async throws {
        try await withServer(routes: routes) { server in
            do {
                let client = try server.connect()
                try await client.send(request)
                if reads { _ = try await client.receive(until: "aaaaaaaaaa") }
                await observation.entered.wait()
                switch departure {
                case .close: break
                case .reset: client.resetOnClose()
                case .shutdown:
                    client.shutdownWrite()
                    await observation.finished.wait()
                }
            }
            await observation.finished.wait()
            #expect(!server.log.lines.contains { $0.level >= .error })
        }
    }

    @Test("Uninterrupted work is not cancelled when its client goes away")
    func uninterrupted() async throws {
        let gate = Gate()
        let observation = Observation()
        func routes(_ router: inout Router) {
            router.on(.get, "/store") { request in
                try await request.uninterrupted {
                    observation.entered.open()
                    await gate.wait()
                    if Task.isCancelled { observation.noteCancellation() }
                    observation.finished.open()
                }
                return .text("stored")
            }
        }
        try await withServer(routes: routes) { server in
            do {
                let client = try server.connect()
                try await client.send("GET /store HTTP/1.1\r\nHost: a\r\n\r\n")
                await observation.entered.wait()
                client.resetOnClose()
            }
            gate.open()
            await observation.finished.wait()
            #expect(!observation.isCancelled)
        }
    }
}
