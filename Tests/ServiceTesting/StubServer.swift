import EventLoop
package import HTTPServer
import TestSupport

/// Runs `body` with a server of these routes, in the role of a peer that the sandbox does not simulate.
package func withStubServer(_ routes: (inout Router) -> Void, _ body: (_ url: String) async throws -> Void) async throws
{
    let loops = try EventLoopGroup(count: 1)
    defer { loops.shutdown() }
    var router = Router()
    routes(&router)
    let application = Application(router: router, middleware: [], logger: quietLogger)
    let server = try HTTPServer(settings: HTTPServerSettings(), loops: loops, logger: quietLogger) { _ in application }
    server.start()
    do {
        try await body("http://127.0.0.1:\(server.port)")
    } catch {
        await server.shutdown(within: .zero)
        throw error
    }
    await server.shutdown(within: .zero)
}
