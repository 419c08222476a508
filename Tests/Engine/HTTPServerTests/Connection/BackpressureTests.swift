import HTTPTypes
import Net
import Synchronization
import Testing

@testable import HTTPServer

@Suite("Clients that do not read", .timeLimit(.minutes(1)))
struct BackpressureTests {
    @Test("A response larger than every buffer arrives intact, while other clients are served")
    func largeAnswer() async throws {
        let pattern = patternedBytes(8 << 20)
        func routes(_ router: inout Router) {
            router.add(.get, "/large", .immediate { _ in Response(.ok, body: pattern) })
            router.add(.get, "/small", .immediate { _ in .text("small") })
        }
        try await withServer(routes: routes) { server in
            let slow = try server.connect(receiveBuffer: 4096)
            try await slow.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\nGET /small HTTP/1.1\r\nHost: a\r\n\r\n")
            let other = try server.connect()
            for _ in 0..<10 {
                #expect(try await other.exchange("GET /small HTTP/1.1\r\nHost: a\r\n\r\n").text == "small")
            }
            #expect(try await slow.receive().body == pattern)
            #expect(try await slow.receive().text == "small")
        }
    }

    @Test(
        "A client that pipelines requests without reading is held back, and later gets every response",
        arguments: [false, true]
    )
    func askingAhead(handlersSuspend: Bool) async throws {
        let count = Counter()
        let body = [UInt8](repeating: 0x61, count: 256 * 1024)
        func routes(_ router: inout Router) {
            let answer: @Sendable (Request) -> Response = { _ in
                count.increment()
                return Response(.ok, body: body)
            }
            router.add(.get, "/large", handlersSuspend ? .task { answer($0) } : .immediate { answer($0) })
            router.add(.get, "/small", .immediate { _ in .text("small") })
        }
        try await withServer(routes: routes) { server in
            let slow = try server.connect(receiveBuffer: 4096)
            try await slow.send(String(repeating: "GET /large HTTP/1.1\r\nHost: a\r\n\r\n", count: 200))
            slow.shutdownWrite()
            let other = try server.connect()
            for _ in 0..<100 {
                #expect(try await other.exchange("GET /small HTTP/1.1\r\nHost: a\r\n\r\n").text == "small")
            }
            // The kernel buffers a few megabytes per connection at most.
            #expect(count.value < 100)
            for _ in 0..<200 {
                #expect(try await slow.receive().body.count == body.count)
            }
            #expect(try await slow.receiveToEnd() == "")
            #expect(count.value == 200)
        }
    }

    @Test("A peer that leaves before its response frees its place, even while its handler is running")
    func gone() async throws {
        let gate = Gate()
        let (finished, entered) = (Gate(), Gate())
        func routes(_ router: inout Router) {
            router.on(.get, "/slow") { _ in
                entered.open()
                await gate.wait()
                defer { finished.open() }
                return .text("too late")
            }
            router.add(.get, "/small", .immediate { _ in .text("small") })
        }
        try await withServer(settings { $0.maximumConnections = 1 }, routes: routes) { server in
            do {
                let client = try server.connect()
                try await client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
                await entered.wait()
                client.resetOnClose()
            }
            let other = try server.connect()
            #expect(try await other.exchange("GET /small HTTP/1.1\r\nHost: a\r\n\r\n").text == "small")
            gate.open()
            await finished.wait()
            #expect(try await other.exchange("GET /small HTTP/1.1\r\nHost: a\r\n\r\n").text == "small")
        }
    }
}

/// A counter that several threads increment.
private final class Counter: Sendable {
    private let count = Atomic(0)

    var value: Int { count.load(ordering: .relaxed) }

    func increment() {
        count.add(1, ordering: .relaxed)
    }
}
