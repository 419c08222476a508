internal import EventLoop
internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import Locking

/// `GET /v1/pushes/{id}/events`: how a push goes on, as server-sent events (WHATWG HTML §9.2).
///
/// Each event is named `push` and holds what `GET /v1/pushes/{id}` answers. One comes at once, one a second while something changes, and
/// the last when the push has ended; a comment every 15 s keeps proxies from closing a quiet stream.
final class PushEvents: Sendable {
    private static let interval = Duration.seconds(1)
    /// Seconds without an event before a comment is sent.
    private static let quietTurns = 15

    private let isClosing = Locked(false)

    /// Ends the streams there are within a second: the server shuts down.
    func close() {
        isClosing.withLock { $0 = true }
    }

    /// - Parameters:
    ///   - first: The push as it is now.
    ///   - next: Asks for it again; `nil` when it is there no more.
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
                let json = shown.json()
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
