import EventLoop
import HTTPServer
import HTTPTypes
import Locking
import Schemas
import ServiceLifecycle

/// The route `GET /v1/pushes/{id}/events`: the progress of a push as server-sent events (WHATWG HTML §9.2).
///
/// Each event is named `push` and contains the response of `GET /v1/pushes/{id}`, without the message. The first is sent at once, further
/// ones each second while something changes, and the last one when the push has ended. A comment every 15 s prevents
/// proxies from closing an idle stream.
final class PushEvents: Service {
    private static let interval = Duration.seconds(1)
    /// The number of seconds without an event after which a comment is sent.
    private static let quietTurns = 15

    private let isClosing = Locked(false)

    /// Waits until the server shuts down, and then ends all open streams within a second.
    func run() async {
        try? await gracefulShutdown()
        isClosing.withLock { $0 = true }
    }

    /// Returns a response that streams the events of a push.
    ///
    /// - Parameters:
    ///   - first: The current state of the push.
    ///   - next: Reads the push again. Returns `nil` if it no longer exists, or the
    ///     caller may no longer read it.
    func response(
        _ first: PushSummary,
        on loop: EventLoop,
        next: @escaping @Sendable () async throws -> PushSummary?
    ) -> Response {
        Response(.ok, contentType: "text/event-stream", headerFields: [.cacheControl: "no-store"]) { [self] writer in
            var push: PushSummary? = first
            var last: [UInt8] = []
            var quietTurns = 0
            while let shown = push {
                let json = PushSummary.shape.json(shown)
                if json != last {
                    try await writer.write(Array("event: push\ndata: ".utf8) + json + Array("\n\n".utf8))
                    last = json
                    quietTurns = 0
                } else if quietTurns == Self.quietTurns {
                    try await writer.write(Array(":\n\n".utf8))
                    quietTurns = 0
                }
                guard !shown.state.isFinal, !isClosing.withLock({ $0 }) else { return }
                try await loop.sleep(for: Self.interval)
                quietTurns += 1
                push = try await next()
            }
        }
    }
}
