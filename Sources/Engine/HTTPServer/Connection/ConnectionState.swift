import HTTPTypes
import Net

/// The protocol state of an HTTP/1.1 connection, without the socket: bytes and events go in, actions come out.
///
/// One request is processed at a time. Pipelined requests stay unparsed in the caller's buffer until then, so they are
/// answered in order and cost only their bytes.
///
/// A class, because Swift checks exclusive access each time a struct inside another object is mutated.
final class ConnectionState {
    /// The parts of a head that are still needed after it was passed on, and the state of the body.
    private struct Exchange {
        let keepsAlive: Bool
        /// Whether the client waits for `100 Continue`, which has not been sent.
        var awaitsContinue: Bool
        var decoder: BodyDecoder
        /// Whether the handler streams the body.
        var isStreamed = false

        init(_ head: RequestHead) {
            keepsAlive = head.keepsAlive
            awaitsContinue = head.expectsContinue
            decoder = BodyDecoder(head.framing)
        }

        /// Whether a response sent now must be the connection's last.
        var endsConnection: Bool {
            guard keepsAlive else { return true }
            guard !decoder.isComplete else { return false }
            // After a refusal, a client that waits for `100 Continue` may or may not send its body. The server cannot
            // know (RFC 9110 §10.1.1), so it closes the connection.
            return awaitsContinue || (decoder.remaining ?? 0) > ConnectionState.drainLimit
        }
    }

    private enum State {
        /// Nothing of the next request has been received. Can transition to `head`, `headComplete`, `failed`,
        /// `lingering`, `closed`.
        case idle
        /// Part of a head has been received. Can transition to `headComplete`, `failed`, `closed`.
        case head(RequestHeadParser)
        /// The caller is deciding about a head, possibly asynchronously. The body is not read meanwhile. Can transition
        /// to `body`, `failed`; after an early response to `answering`, `draining`, `idle`, `lingering`.
        case headComplete(Exchange)
        /// The body is being received. Can transition to `handling`, `failed`, `closed`; after an early response also
        /// to `answering`, `draining`, `idle`, `lingering`.
        case body(Exchange)
        /// The request is complete and its handler is called. Can transition to `answering`, `idle`, `lingering`; to
        /// `failed` if there is no memory for the body.
        case handling(Exchange)
        /// The response is being written in pieces. Can transition to `idle`, `lingering`.
        case answering(isLast: Bool)
        /// The response was sent before the end of the body. The rest is read and discarded. Can transition to `idle`,
        /// `lingering`, `closed`.
        case draining(BodyDecoder, budget: Int)
        /// The request was refused, and an error response must follow. Can transition to `answering`, `lingering`.
        case failed
        /// The server has closed its side. Input is discarded until the peer closes too. Can transition to `closed`.
        case lingering
        case closed
    }

    /// An instruction to the caller.
    enum Action {
        /// Wait for more bytes.
        case needsInput
        /// Decide about a head: call ``readBody(upTo:isStreamed:)`` or respond early.
        case decide(RequestHead)
        /// Call the handler of the complete request, then ``answered()``.
        case handle
        /// End the streamed body.
        case endBody
        /// Fail the streamed body: the rest cannot be read. The handler gets the error and responds; its response is
        /// the last.
        case failBody(ProtocolError)
        /// Respond with this error and close.
        case refuse(ProtocolError)
        /// Close the sending side once everything is written, then discard input until the peer closes.
        case linger
        /// Close now.
        case close
    }

    /// The event that the connection waits for. Each has its own timeout.
    enum Wait: Equatable {
        case nextRequest
        case head
        case body
        case handler
        case peerClose
    }

    /// The number of body bytes that a client may still send after an early response before it is cut off. It is enough
    /// for a small body in flight and too little to be useful for an attack.
    static let drainLimit = 64 * 1024

    private let limits: HeadLimits
    private var state = State.idle
    private var bodyBytes = 0
    private var maximumBodyBytes = 0
    /// Whether the current request is the last, because the server is shutting down or has dropped input.
    private var isClosing = false
    /// Whether the next response is the last, because the server is about to shut down.
    private var isDraining = false

    init(limits: HeadLimits) {
        self.limits = limits
    }

    /// The event that the connection waits for now.
    var wait: Wait {
        switch state {
        case .idle: .nextRequest
        case .head: .head
        case .body, .draining: .body
        case .headComplete, .handling, .answering, .failed: .handler
        case .lingering, .closed: .peerClose
        }
    }

    /// Whether input can be processed now. Otherwise it waits in the caller's buffer.
    var readsInput: Bool {
        switch state {
        case .idle, .head, .body, .draining, .lingering: true
        case .headComplete, .handling, .answering, .failed, .closed: false
        }
    }

    /// Whether the caller is deciding about a head. Meanwhile the caller must not even buffer the body.
    var isDeciding: Bool {
        if case .headComplete = state { true } else { false }
    }

    /// Whether the request is complete and its handler is to be called, or runs.
    var isHandling: Bool {
        if case .handling = state { true } else { false }
    }

    /// Whether nothing of a next request has been received.
    var isIdle: Bool {
        if case .idle = state { true } else { false }
    }

    /// Whether the current request is complete, so that ``read(_:_:)`` makes progress without further input.
    var isWhole: Bool {
        if case .body(let exchange) = state { exchange.decoder.isComplete } else { false }
    }

    // MARK: Bytes

    /// Processes received bytes.
    ///
    /// - Parameters:
    ///   - input: All bytes not yet consumed.
    ///   - receiveBody: Called with runs of body bytes.
    /// - Returns: The number of bytes of `input` that were consumed, and the next action. Call again until the action
    ///   is `needsInput`.
    func read(
        _ input: UnsafeRawBufferPointer,
        _ receiveBody: (UnsafeRawBufferPointer) -> Void
    ) -> (taken: Int, action: Action) {
        switch state {
        case .idle:
            guard !input.isEmpty else { return (0, isClosing ? shut() : .needsInput) }
            return readHead(RequestHeadParser(limits: limits), input)
        case .head(let parser):
            return readHead(parser, input)
        case .body(var exchange):
            do throws(ProtocolError) {
                let taken = try decode(input, with: &exchange.decoder, receiveBody)
                guard exchange.decoder.isComplete else {
                    state = .body(exchange)
                    return (taken, .needsInput)
                }
                state = .handling(exchange)
                return (taken, exchange.isStreamed ? .endBody : .handle)
            } catch {
                return (input.count, fail(error))
            }
        case .draining(var decoder, let budget):
            // The request has been answered, so an error in its body needs no response.
            guard let taken = try? decoder.decode(input, { _ in }), taken <= budget else {
                return (input.count, shut())
            }
            guard decoder.isComplete else {
                state = .draining(decoder, budget: budget - taken)
                return (taken, .needsInput)
            }
            state = .idle
            return (taken, isClosing ? shut() : .needsInput)
        case .lingering:
            return (input.count, .needsInput)
        case .headComplete, .handling, .answering, .failed, .closed:
            return (0, .needsInput)
        }
    }

    private func readHead(
        _ parser: RequestHeadParser,
        _ input: UnsafeRawBufferPointer
    ) -> (taken: Int, action: Action) {
        var parser = parser
        do throws(ProtocolError) {
            guard let (head, length) = try parser.parse(input) else {
                state = .head(parser)
                return (0, .needsInput)
            }
            state = .headComplete(Exchange(head))
            return (length, .decide(head))
        } catch {
            return (input.count, fail(error))
        }
    }

    private func decode(
        _ input: UnsafeRawBufferPointer,
        with decoder: inout BodyDecoder,
        _ receiveBody: (UnsafeRawBufferPointer) -> Void
    ) throws(ProtocolError) -> Int {
        var received = bodyBytes
        let limit = maximumBodyBytes
        do throws(ProtocolError) {
            let taken = try decoder.decode(input) { run in
                received += run.count
                if received <= limit { receiveBody(run) }
            }
            bodyBytes = received
            guard received <= limit else { throw bodyTooLarge }
            return taken
        } catch {
            // The body exceeded the limit before the invalid byte. Bytes received one by one would give the same error.
            throw received <= limit ? error : bodyTooLarge
        }
    }

    private var bodyTooLarge: ProtocolError {
        ProtocolError(.contentTooLarge, "The body is larger than \(maximumBodyBytes) bytes.")
    }

    /// Refuses the input; through the handler if that streams the body.
    private func fail(_ error: ProtocolError) -> Action {
        defer { state = .failed }
        if case .body(let exchange) = state, exchange.isStreamed { return .failBody(error) }
        return .refuse(error)
    }

    // MARK: Current request

    /// Starts to read the request's body.
    ///
    /// - Parameters:
    ///   - limit: The maximum length of the body in bytes.
    ///   - isStreamed: Whether the handler is called now and streams the body. Otherwise it is called when the body is
    ///     complete.
    /// - Throws: ``ProtocolError`` if the declared length exceeds the limit. Nothing of the body is read then.
    func readBody(upTo limit: Int, isStreamed: Bool) throws(ProtocolError) {
        guard case .headComplete(var exchange) = state else { return }
        bodyBytes = 0
        maximumBodyBytes = limit
        guard exchange.decoder.remaining ?? 0 <= limit else {
            state = .failed
            throw bodyTooLarge
        }
        exchange.isStreamed = isStreamed
        state = .body(exchange)
    }

    /// Returns whether the caller must send `100 Continue` now that the body is awaited. Returns `true` only once per
    /// request.
    func sendsContinue() -> Bool {
        guard case .body(var exchange) = state, exchange.awaitsContinue, !exchange.decoder.isComplete else {
            return false
        }
        exchange.awaitsContinue = false
        state = .body(exchange)
        return true
    }

    /// Whether the next response to be written is the connection's last.
    var closesAfterAnswer: Bool {
        guard !isClosing, !isDraining else { return true }
        switch state {
        case .headComplete(let exchange), .body(let exchange), .handling(let exchange): return exchange.endsConnection
        case .answering(let isLast): return isLast
        case .idle, .head, .draining, .failed, .lingering, .closed: return true
        }
    }

    /// Begins a response that is written in pieces. ``answered()`` ends it.
    ///
    /// - Parameter closing: Whether the end of the response is marked by closing the connection.
    /// - Returns: Whether the response is the connection's last. It always is if it begins before the end of the body,
    ///   because the rest of the body is not read meanwhile.
    func beginAnswer(closing: Bool) -> Bool {
        var isLast = closing || closesAfterAnswer
        switch state {
        case .headComplete(let exchange), .body(let exchange): isLast = isLast || !exchange.decoder.isComplete
        case .handling, .answering, .idle, .head, .draining, .failed, .lingering, .closed: break
        }
        state = .answering(isLast: isLast)
        return isLast
    }

    /// Ends the exchange. The response has been written, or queued for writing.
    func answered() -> Action {
        guard !closesAfterAnswer else { return shut() }
        switch state {
        case .headComplete(let exchange), .body(let exchange):
            state = exchange.decoder.isComplete ? .idle : .draining(exchange.decoder, budget: Self.drainLimit)
        case .handling, .answering, .idle, .head, .draining, .failed, .lingering, .closed:
            state = .idle
        }
        return .needsInput
    }

    private func shut() -> Action {
        state = .lingering
        return .linger
    }

    /// Refuses a request that is not with its handler yet, because the caller has no memory left for its body.
    func hasNoRoom() -> Action {
        switch state {
        case .headComplete, .body, .handling: fail(Self.noRoom)
        case .idle, .head, .answering, .draining, .failed, .lingering, .closed: .needsInput
        }
    }

    /// Handles the loss of unread input that the caller had no memory for. Nothing can be parsed after the gap: a
    /// request that is not with its handler yet is refused, and a request being answered is the last.
    func droppedInput() -> Action {
        switch state {
        case .head, .headComplete, .body:
            return fail(Self.noRoom)
        case .handling, .answering:
            isClosing = true
            return .needsInput
        case .idle, .draining:
            return shut()
        case .failed, .lingering, .closed:
            return .needsInput
        }
    }

    private static var noRoom: ProtocolError {
        ProtocolError(.serviceUnavailable, "The server's memory for request bodies is full. Try again.")
    }

    // MARK: Other events

    /// Handles the end of the peer's input. Everything sent before it has been read.
    func peerClosed() -> Action {
        switch state {
        case .handling, .headComplete, .answering, .failed:
            // The peer may still read, so the current request is answered first.
            return .needsInput
        case .idle, .head, .body, .draining, .lingering, .closed:
            state = .closed
            return .close
        }
    }

    /// Handles the expiry of the timeout for the current ``wait``.
    func timedOut() -> Action {
        switch state {
        case .head, .body: return fail(ProtocolError(.requestTimeout, "The request did not arrive in time."))
        case .idle, .headComplete, .handling, .answering, .draining, .failed, .lingering, .closed:
            state = .closed
            return .close
        }
    }

    /// Makes the next response the connection's last: that to the current request or, if there is none, to the next.
    func drain() {
        isDraining = true
    }

    /// Begins a graceful shutdown: the current request is the last.
    ///
    /// - Parameter hasArrived: Whether the next request has arrived, or a part of it. Then that one is the last.
    func shutDown(hasArrived: Bool) -> Action {
        isClosing = true
        guard case .idle = state, !hasArrived else { return .needsInput }
        return shut()
    }
}
