import EventLoop
import FoundationEssentials
import HTTPServer
import HTTPTypes
import Locking
import Runtime
import Schemas
import ServiceLifecycle

/// The route `GET /v1/pushes/{id}/events`: the progress of a push as server-sent events (WHATWG HTML §9.2).
///
/// Each event is named `push` and contains the response of `GET /v1/pushes/{id}`, without the message. The first is sent at once, further
/// ones each second while something changes, and the last one when the push has ended. A comment every 15 s prevents
/// proxies from closing an idle stream.
///
/// A push is read once a second for all of its streams, however many pages follow it.
final class PushEvents: Service {
    /// The shortest time between two events of a stream, in milliseconds.
    private static let interval: UInt64 = 950
    /// Streams go on at multiples of this time, in milliseconds, so that thousands of them wake their loop twenty times a second.
    private static let step: UInt64 = 50
    /// The number of seconds without an event after which a comment is sent.
    private static let quietTurns = 15
    /// The age, in milliseconds, until which a state that was read for another stream is used: a little less than the interval.
    private static let freshness: UInt64 = 900
    /// The number of pushes whose latest state is kept.
    private static let maximumStates = 1000

    private static let headerFields: HTTPFields = {
        var fields: HTTPFields = [.cacheControl: "no-store"]
        // nginx would gather the events otherwise.
        if let name = HTTPField.Name("X-Accel-Buffering") { fields[name] = "no" }
        return fields
    }()

    /// A state of a push, as a stream sends it.
    private struct State: Sendable {
        let json: [UInt8]
        let isFinal: Bool
        /// When it was about to be read, by the loop's clock in milliseconds.
        let readAt: UInt64

        init(_ push: PushSummary, readAt: UInt64) {
            json = PushSummary.shape.json(push)
            isFinal = push.state.isFinal
            self.readAt = readAt
        }
    }

    private let isClosing = Locked(false)
    private let states = Locked(LRUCache<UUID, State>(limit: maximumStates))
    /// Reads of pushes, which streams share. As many as there may be streams.
    private let reads = SingleFlight<UUID, Result<State?, any Error>>(limit: .max)

    /// Waits until the server shuts down, and then ends all open streams within a second.
    func run() async {
        try? await gracefulShutdown()
        isClosing.withLock { $0 = true }
    }

    /// Returns a response that streams the events of a push.
    ///
    /// - Parameters:
    ///   - first: The current state of the push.
    ///   - isAllowed: Whether the caller may still read it.
    ///   - read: Reads the push again. Returns `nil` if it no longer exists.
    func response(
        _ first: PushSummary,
        on loop: EventLoop,
        while isAllowed: @escaping @Sendable () async throws -> Bool,
        read: @escaping @Sendable () async throws -> PushSummary?
    ) -> Response {
        let id = first.id
        let begin = State(first, readAt: EventLoop.milliseconds())
        return Response(.ok, contentType: "text/event-stream", headerFields: Self.headerFields) { [self] writer in
            var state: State? = begin
            var last: [UInt8] = []
            var quietTurns = 0
            while let shown = state {
                if shown.json != last {
                    try await writer.write(Array("event: push\ndata: ".utf8) + shown.json + Array("\n\n".utf8))
                    last = shown.json
                    quietTurns = 0
                } else if quietTurns == Self.quietTurns {
                    try await writer.write(Array(":\n\n".utf8))
                    quietTurns = 0
                }
                guard !shown.isFinal, !isClosing.withLock({ $0 }) else { return }
                let untilStep = Self.step - (loop.now + Self.interval) % Self.step
                try await loop.sleep(for: .milliseconds(Self.interval + untilStep))
                quietTurns += 1
                guard try await isAllowed() else { return }
                state = try await next(id, after: shown, on: loop, read)
            }
        }
    }

    /// Returns a state that is at least as recent as the one that a stream has sent: the state that was just read for another stream, or else
    /// a new one.
    private func next(
        _ id: UUID,
        after shown: State,
        on loop: EventLoop,
        _ reading: @escaping @Sendable () async throws -> PushSummary?
    ) async throws -> State? {
        if let known = states.withLock({ $0.value(id) }), known.readAt > shown.readAt,
            EventLoop.milliseconds() < known.readAt + Self.freshness
        {
            return known
        }
        let read = try await reads.answer(to: id, on: loop) { [states] in
            let now = EventLoop.milliseconds()
            do {
                let state = try await reading().map { State($0, readAt: now) }
                if let state { states.withLock { $0.set(state, for: id) } }
                return .success(state)
            } catch {
                return .failure(error)
            }
        }?.get()
        // The read that was in flight may have begun earlier.
        return read.map { $0.readAt < shown.readAt ? shown : $0 }
    }
}
