import EventLoop
import HTTPServer
import HTTPTypes
import Logging
import Net

/// A push server as Kakao sees it, which records requests and responds with a fixed status.
final class Receiver: Sendable {
    struct Received: Sendable {
        let method: HTTPRequest.Method
        let path: String
        let query: String
        let headerFields: HTTPFields
        /// The fields of the query or of a form body; empty for JSON.
        let fields: [String: String]
        let body: [UInt8]
    }

    let url: String
    private let server: HTTPServer
    private let received: AsyncStream<Received>

    init(loops: EventLoopGroup, status: HTTPResponse.Status = .ok, path: String) throws {
        let (stream, continuation) = AsyncStream<Received>.makeStream()
        received = stream
        let take = Handler.immediate { request in
            var pairs = (try? request.queryItems()) ?? []
            if request.contentType == "application/x-www-form-urlencoded" {
                pairs += (try? FormURLEncoded.parse(request.body[...])) ?? []
            }
            continuation.yield(
                Received(
                    method: request.method,
                    path: request.path,
                    query: String(decoding: request.head.query, as: UTF8.self),
                    headerFields: request.head.headerFields,
                    fields: Dictionary(pairs.map { ($0.name, $0.value) }) { first, _ in first },
                    body: request.body
                )
            )
            return Response(status)
        }
        var router = Router()
        router.add(.get, path, take)
        router.add(.post, path, take)
        let logger = Logger(label: "receiver", factory: { _ in SwiftLogNoOpLogHandler() })
        let application = Application(router: router, middleware: [], logger: logger)
        server = try HTTPServer(settings: HTTPServerSettings(), loops: loops, logger: logger) { _ in application }
        url = "http://127.0.0.1:\(server.port)"
        server.start()
    }

    /// Waits for the next request and returns it.
    func next() async -> Received? {
        var iterator = received.makeAsyncIterator()
        return await iterator.next()
    }

    func shutdown() async {
        await server.shutdown(within: .seconds(1))
    }
}

/// Runs a receiver for a test.
func withReceiver<Result>(
    status: HTTPResponse.Status = .ok,
    path: String,
    _ body: (Receiver) async throws -> Result
) async throws -> Result {
    let group = try EventLoopGroup(count: 1)
    defer { group.shutdown() }
    let receiver = try Receiver(loops: group, status: status, path: path)
    do {
        let result = try await body(receiver)
        await receiver.shutdown()
        return result
    } catch {
        await receiver.shutdown()
        throw error
    }
}
