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
    /// How clients reach the server.
    enum Path: CaseIterable {
        case direct
        case proxy

        var settings: HTTPServerSettings {
            HTTPServerTests.settings { settings in
                if self == .proxy { settings.trustedProxies = TrustedProxies("127.0.0.1") ?? .none }
            }
        }
    }

    /// A server with one loop that the test can hold back, and whose handlers take longer than a tick.
    private final class Scene: Sendable {
        let served = Locked<[String]>([])
        private let isHeld = Atomic(false)
        private let released = DispatchSemaphore(value: 0)

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
            router.add(
                .get,
                "/refused/{name}",
                check: { [self] request in
                    _ = serve(request)
                    throw Problem(.unauthorized, "Unknown key.")
                },
                .immediate { _ in .text("never") }
            )
        }

        private func serve(_ request: Request) -> Response {
            served.withLock { $0.append(Task.isCancelled ? "cancelled" : request.pathParameter("name")) }
            let start = ProcessorTime.ofThread
            // Longer than a tick, with the rest of a millisecond in which it began. A turn costs processor time.
            while ProcessorTime.ofThread - start < .milliseconds(7) {}
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

    /// Opens a connection that the server has accepted, of a client with a number.
    private static func connect(_ client: UInt8, by path: Path, to server: TestServer) async throws -> RawClient {
        let connection = try server.connect(from: path == .proxy ? 1 : client)
        #expect(try await connection.exchange(get("/", from: Int(client))).status == 404)
        return connection
    }

    @Test(
        "Networks take turns, and Kakao's requests wait for none of them",
        arguments: ["work", "immediate"],
        Path.allCases
    )
    func turns(kind: String, path: Path) async throws {
        let scene = Scene()
        try await withServer(path.settings, routes: scene.routes) { server in
            let holder = try await Self.connect(9, by: path, to: server)
            var clients: [RawClient] = []
            for number: UInt8 in [2, 2, 2, 2, 2, 2, 3, 3, 4] {
                clients.append(try await Self.connect(number, by: path, to: server))
            }
            #expect(try await clients[8].exchange(Self.get("/kakao/before", from: 4)).status == 200)
            try await scene.hold(holder)
            // All are ready when the loop goes on.
            for number in 0..<6 { try await clients[number].send(Self.get("/\(kind)/a", from: 2)) }
            for number in 6..<8 { try await clients[number].send(Self.get("/\(kind)/b", from: 3)) }
            try await clients[8].send(Self.get("/kakao/k", from: 4))
            scene.release()
            for client in [holder] + clients { #expect(try await client.receive().status == 200) }
        }
        let served = scene.served.withLock { $0 }.dropFirst()
        // The first one is served at once, and uses the tick up.
        #expect(served.prefix(2).contains("k"), "\(served)")
        #expect(served.filter { $0 != "k" }.prefix(3).contains("b"), "\(served)")
    }

    @Test(
        "A connection with many requests takes a turn for each, also if they are refused",
        arguments: ["work", "immediate", "refused"],
        Path.allCases
    )
    func pipeline(kind: String, path: Path) async throws {
        let scene = Scene()
        try await withServer(path.settings, routes: scene.routes) { server in
            let holder = try await Self.connect(9, by: path, to: server)
            let many = try await Self.connect(2, by: path, to: server)
            let one = try await Self.connect(3, by: path, to: server)
            try await scene.hold(holder)
            try await many.send(String(repeating: Self.get("/\(kind)/a", from: 2), count: 20))
            try await one.send(Self.get("/\(kind)/b", from: 3))
            scene.release()
            let status = kind == "refused" ? 401 : 200
            for _ in 0..<20 { #expect(try await many.receive().status == status) }
            #expect(try await one.receive().status == status)
        }
        let served = scene.served.withLock { $0 }
        #expect(served.prefix(3).contains("b"), "\(served)")
        #expect(served.count == 21)
    }

    @Test("The handler of a client that has left while it waited is cancelled, and a reset connection takes no turn")
    func left() async throws {
        let scene = Scene()
        try await withServer(routes: scene.routes) { server in
            let holder = try await Self.connect(9, by: .direct, to: server)
            let first = try await Self.connect(2, by: .direct, to: server)
            let left = try await Self.connect(3, by: .direct, to: server)
            var reset: RawClient? = try await Self.connect(3, by: .direct, to: server)
            try await scene.hold(holder)
            try await first.send(Self.get("/work/a", from: 2))
            try await left.send(Self.get("/work/b", from: 3))
            left.shutdownWrite()
            try await reset?.send(Self.get("/work/c", from: 3))
            reset?.resetOnClose()
            reset = nil
            scene.release()
            #expect(try await first.receive().status == 200)
            _ = try await left.receiveToEnd()
            try await eventually("only one connection is left") { await server.server.connections().open == 2 }
        }
        #expect(scene.served.withLock { $0 } == ["a", "cancelled"])
    }

    @Test("At the limit, a connection whose request the loop has not come to read is not closed")
    func arrived() async throws {
        let scene = Scene()
        let limits = settings { settings in
            settings.maximumConnections = 2
            settings.shortestIdleTime = .zero
        }
        try await withServer(limits, routes: scene.routes) { server in
            let holder = try await Self.connect(9, by: .direct, to: server)
            let idle = try await Self.connect(2, by: .direct, to: server)
            try await scene.hold(holder)
            // The loop comes to the new connection first.
            let waiting = try server.connect(from: 3)
            try await waiting.send(Self.get("/immediate/b", from: 3))
            try await idle.send(Self.get("/immediate/a", from: 2))
            scene.release()
            #expect(try await idle.receive().status == 200)
            #expect(try await waiting.receive().status == 200)
        }
        #expect(scene.served.withLock { $0 } == ["a", "b"])
    }

    @Test(
        "Requests that wait or are unread are served in order, also when the server shuts down",
        arguments: Path.allCases
    )
    func shutdown(path: Path) async throws {
        let scene = Scene()
        try await withServer(path.settings, routes: scene.routes) { server in
            let holder = try await Self.connect(9, by: path, to: server)
            let first = try await Self.connect(2, by: path, to: server)
            let second = try await Self.connect(3, by: path, to: server)
            try await scene.hold(holder)
            try await first.send(Self.get("/work/a", from: 2))
            try await second.send(Self.get("/work/b", from: 3) + Self.get("/work/c", from: 3))
            // The loop comes to this after it has noticed the requests.
            let part = server.server.loopServers[0]
            part.loop.execute { part.shutDown {} }
            scene.release()
            #expect(try await first.receive().status == 200)
            #expect(try await second.receive().status == 200)
            #expect(try await second.receiveToEnd() == "")
        }
        #expect(scene.served.withLock { $0 } == ["a", "b"])
    }
}
