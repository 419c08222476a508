import EventLoop
import Locking
import TestSupport

@testable import HTTPServer

/// A server on a port chosen by the kernel, with a log that tests can read.
struct TestServer: Sendable {
    let server: HTTPServer
    let log: CollectedLog

    var port: Int { server.port }

    func connect(from source: UInt8 = 1, receiveBuffer: Int32? = nil) throws -> RawClient {
        try RawClient(port: port, from: source, receiveBuffer: receiveBuffer)
    }
}

/// Returns default settings modified by `change`.
func settings(_ change: (inout HTTPServerSettings) -> Void) -> HTTPServerSettings {
    var settings = HTTPServerSettings()
    change(&settings)
    return settings
}

/// Runs `body` with a server, then shuts the server down.
func withServer(
    _ settings: HTTPServerSettings = HTTPServerSettings(),
    loops: Int = 1,
    middleware: [any Middleware] = [],
    routes: (inout Router) -> Void = { _ in },
    _ body: (TestServer) async throws -> Void
) async throws {
    let loops = try EventLoopGroup(count: loops)
    defer { loops.shutdown() }
    let log = CollectedLog()
    var router = Router()
    routes(&router)
    let application = Application(router: router, middleware: middleware, logger: log.logger)
    let server = try HTTPServer(settings: settings, loops: loops, logger: log.logger) { _ in application }
    server.start()
    do {
        try await body(TestServer(server: server, log: log))
    } catch {
        await server.shutdown(within: .zero)
        throw error
    }
    await server.shutdown(within: .zero)
}

/// Suspends waiting tasks until it is opened.
final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Locked(State())

    var isOpen: Bool { state.withLock { $0.isOpen } }

    func open() {
        let waiters = state.withLock { state in
            state.isOpen = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    func wait() async {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state in
                if !state.isOpen { state.waiters.append(continuation) }
                return state.isOpen
            }
            if isOpen { continuation.resume() }
        }
    }
}

/// Returns bytes in which a lost or repeated piece is noticed: the pattern's period, 251, is prime, so no buffer size
/// is a multiple of it.
func patternedBytes(_ count: Int) -> [UInt8] {
    var bytes = Array(0..<251 as Range<UInt8>)
    while bytes.count < count { bytes += bytes }
    return Array(bytes[..<count])
}
