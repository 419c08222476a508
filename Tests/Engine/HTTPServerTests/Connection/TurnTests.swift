import Dispatch
import EventLoop
import HTTPTypes
import Locking
import Synchronization
import TestSupport
import Testing

@testable import HTTPServer

/// The order in which a loop serves requests for all of which it has no time at once.
@Suite("Turns", .timeLimit(.minutes(5)))
struct TurnTests {
    /// A server behind a proxy, with one loop that the test can hold back, and whose handlers take longer than a tick.
    private final class Scene: Sendable {
        let served = Locked<[String]>([])
        private let isHeld = Atomic(false)
        private let released = DispatchSemaphore(value: 0)

        static let settings = HTTPServerTests.settings { $0.trustedProxies = TrustedProxies("127.0.0.1") ?? .none }

        func routes(_ router: inout Router) {
            router.add(
                .get,
                "/hold",
                .immediate { [self] _ in
                    isHeld.store(true, ordering: .releasing)
                    released.wait()
                    return .text("held")
                }
            )
            router.on(.get, "/work/{name}") { [self] in serve($0) }
            router.add(.get, "/immediate/{name}", .immediate { [self] in serve($0) })
            router.add(
                .get,
                "/kakao/{name}",
                check: { request in
                    request.exemptsConnection = true
                    return nil
                },
                .task { [self] in serve($0) }
            )
        }

        private func serve(_ request: Request) -> Response {
            served.withLock { $0.append(request.pathParameter("name")) }
            let start = MonotonicTime.now
            // Longer than a tick, with the rest of a millisecond in which it began.
            while .now - start < .milliseconds(7) {}
            return .text("done")
        }

        /// Holds the loop back, with a request of the client, until ``release()``.
        func hold(_ client: RawClient) async throws {
            try await client.send(TurnTests.get("/hold", from: 9))
            try await eventually("the loop is held back") { isHeld.load(ordering: .acquiring) }
        }

        func release() {
            released.signal()
        }
    }

    private static func get(_ path: String, from client: Int) -> String {
        "GET \(path) HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.\(client)\r\n\r\n"
    }

    /// Opens connections that the server has accepted.
    private static func connect(_ count: Int, to server: TestServer) async throws -> [RawClient] {
        var clients: [RawClient] = []
        for _ in 0..<count {
            let client = try server.connect()
            #expect(try await client.exchange(get("/", from: 9)).status == 404)
            clients.append(client)
        }
        return clients
    }

    @Test("Networks take turns, and Kakao's requests wait for none of them", arguments: ["work", "immediate"])
    func turns(kind: String) async throws {
        let scene = Scene()
        try await withServer(Scene.settings, routes: scene.routes) { server in
            let clients = try await Self.connect(10, to: server)
            try await scene.hold(clients[9])
            // All are ready when the loop goes on.
            for number in 0..<6 { try await clients[number].send(Self.get("/\(kind)/a", from: 1)) }
            for number in 6..<8 { try await clients[number].send(Self.get("/\(kind)/b", from: 2)) }
            try await clients[8].send(Self.get("/kakao/k", from: 3))
            scene.release()
            for client in clients { #expect(try await client.receive().status == 200) }
        }
        let served = scene.served.withLock { $0 }
        // The first one is served at once, and uses the tick up.
        #expect(served.prefix(2).contains("k"), "\(served)")
        #expect(served.filter { $0 != "k" }.prefix(3).contains("b"), "\(served)")
    }

    @Test("Requests that wait are served in order on their connection, and during a shutdown")
    func shutdown() async throws {
        let scene = Scene()
        try await withServer(Scene.settings, routes: scene.routes) { server in
            let clients = try await Self.connect(4, to: server)
            try await scene.hold(clients[3])
            try await clients[0].send(Self.get("/work/a", from: 1))
            try await clients[1].send(Self.get("/work/b", from: 2) + Self.get("/work/c", from: 2))
            try await clients[2].send(Self.get("/work/gone", from: 2))
            clients[2].resetOnClose()
            async let end: Void = server.server.shutdown(within: .seconds(60))
            scene.release()
            #expect(try await clients[0].receive().status == 200)
            #expect(try await clients[1].receive().status == 200)
            await end
        }
        let served = scene.served.withLock { $0 }
        #expect(served.starts(with: ["a", "b"]), "\(served)")
    }
}
