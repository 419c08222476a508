internal import HTTPTypes

/// What a connection of HTTP/1.1 is doing, without the socket: bytes and events go in, and what to do comes out.
///
/// One request is in hand at a time. What a client has sent after it waits unread in the caller's buffer, so that pipelined
/// requests are answered in order and cost nothing but the bytes they are.
///
/// A class, since a value that is changed inside another object is looked up in the table of accesses under way, each time.
final class ConnectionState {
    /// What is still needed of a head once its request is in hand, and how far its body has come.
    private struct Exchange {
        let keepsAlive: Bool
        /// The client waits for `100 Continue`, and has not been sent it.
        var awaitsContinue: Bool
        var decoder: BodyDecoder
        /// The handler reads the body as it comes.
        var isStreamed = false

        init(_ head: RequestHead) {
            keepsAlive = head.keepsAlive
            awaitsContinue = head.expectsContinue
            decoder = BodyDecoder(head.framing)
        }

        /// Whether an answer now has to be the connection's last.
        var endsConnection: Bool {
            guard keepsAlive else { return true }
            guard !decoder.isComplete else { return false }
            // A client that waits for `100 Continue` may or may not send its body after a refusal: nobody can tell (RFC 9110
            // §10.1.1), so the connection ends.
            return awaitsContinue || (decoder.remaining ?? 0) > ConnectionState.drainLimit
        }
    }

    private enum State {
        /// Nothing of the next request has come. Can transition to `head`, `closed`.
        case idle
        /// Part of a head has come. Can transition to `headComplete`, `failed`, `closed`.
        case head(RequestHeadParser)
        /// The caller decides what to do with a head, which may take it a while. Nothing of the body is read meanwhile. Can transition to
        /// `body`, or by an early answer to `answering`, `draining`, `idle`, `lingering`.
        case headComplete(Exchange)
        /// The body is to come. Can transition to `handling`, `failed`, `closed`; and, when its handler reads it as it comes, by
        /// an answer to `answering`, `draining`, `idle`, `lingering`.
        case body(Exchange)
        /// The request is whole and with its handler. Can transition to `answering`, `idle`, `lingering`, `closed`.
        case handling(Exchange)
        /// The answer is written in pieces. Can transition to `idle`, `lingering`.
        case answering(isLast: Bool)
        /// The answer went out before the body had come: the rest is read and thrown away. Can transition to `idle`, `lingering`.
        case draining(BodyDecoder, budget: Int)
        /// The bytes were refused; an answer that says so is to follow. Can transition to `answering`, `lingering`.
        case failed
        /// Our side is shut; what the peer still sends is thrown away until it closes too. Can transition to `closed`.
        case lingering
        case closed
    }

    /// What the caller is to do next.
    enum Action {
        /// Wait for more bytes.
        case needsInput
        /// Decide about a head: ``readBody(upTo:isStreamed:)``, or answer early.
        case decide(RequestHead)
        /// The request is whole: have it handled, then say ``answered()``.
        case handle
        /// The body that a handler reads has ended.
        case endBody
        /// The body that a handler reads cannot be read on: the handler is told why, and answers. Its answer is the last.
        case failBody(ProtocolError)
        /// Answer with this error and close.
        case refuse(ProtocolError)
        /// Shut our side once everything is written, then throw away what comes until the peer closes.
        case linger
        /// Close now.
        case close
    }

    /// What a wait is for: each has a time-out of its own.
    enum Wait: Equatable {
        case nextRequest
        case head
        case body
        case handler
        case peerClose
    }

    /// A client that is told "no" in the middle of its body may send this much more before it is cut off: enough for a small body
    /// that was under way already, too little to be worth an attack.
    static let drainLimit = 64 * 1024

    private let limits: HeadLimits
    private var state = State.idle
    private var bodyBytes = 0
    private var maximumBodyBytes = 0
    /// No request after the one in hand: the server is shutting down.
    private var isClosing = false

    init(limits: HeadLimits) {
        self.limits = limits
    }

    /// What the connection waits for.
    var wait: Wait {
        switch state {
        case .idle: .nextRequest
        case .head: .head
        case .body, .draining: .body
        case .headComplete, .handling, .answering, .failed: .handler
        case .lingering, .closed: .peerClose
        }
    }

    /// Whether bytes are of use now; otherwise they wait in the caller's buffer.
    var readsInput: Bool {
        switch state {
        case .idle, .head, .body, .draining, .lingering: true
        case .headComplete, .handling, .answering, .failed, .closed: false
        }
    }

    /// Whether the caller is deciding about a head: then not even a buffer of its own is to be filled with the body.
    var isDeciding: Bool {
        if case .headComplete = state { true } else { false }
    }

    /// Whether nothing of a next request has come.
    var isIdle: Bool {
        if case .idle = state { true } else { false }
    }

    /// Whether nothing more has to come for the request in hand: ``read(_:_:)`` says so without a byte.
    var isWhole: Bool {
        if case .body(let exchange) = state { exchange.decoder.isComplete } else { false }
    }

    // MARK: Bytes

    /// Reads on in the bytes that have come.
    ///
    /// - Parameters:
    ///   - input: All bytes not yet taken.
    ///   - receiveBody: Is given runs of the body.
    /// - Returns: How many bytes of `input` were taken, and what to do. To be called again until it says `needsInput`.
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
            // Whatever is wrong with this body, its request has been answered: there is nothing more to say.
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
            // The limit was passed before what is wrong came, and had been told had the bytes come one by one.
            throw received <= limit ? error : bodyTooLarge
        }
    }

    private var bodyTooLarge: ProtocolError {
        ProtocolError(.contentTooLarge, "The body is larger than \(maximumBodyBytes) bytes.")
    }

    /// Refuses what has come, through the handler if that is at work.
    private func fail(_ error: ProtocolError) -> Action {
        defer { state = .failed }
        if case .body(let exchange) = state, exchange.isStreamed { return .failBody(error) }
        return .refuse(error)
    }

    // MARK: The request in hand

    /// The caller wants the request's body.
    ///
    /// - Parameters:
    ///   - limit: The most bytes that it may have.
    ///   - isStreamed: The handler is called now and reads the body as it comes; otherwise it is called when the body is whole.
    /// - Throws: ``ProtocolError`` when the body says that it is too large: then nothing of it is read.
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

    /// Somebody waits for the body now. Returns whether `100 Continue` is to be sent, and does so once.
    func sendsContinue() -> Bool {
        guard case .body(var exchange) = state, exchange.awaitsContinue, !exchange.decoder.isComplete else {
            return false
        }
        exchange.awaitsContinue = false
        state = .body(exchange)
        return true
    }

    /// Whether the answer that is about to be written is the connection's last.
    var closesAfterAnswer: Bool {
        guard !isClosing else { return true }
        switch state {
        case .headComplete(let exchange), .body(let exchange), .handling(let exchange): return exchange.endsConnection
        case .answering(let isLast): return isLast
        case .idle, .head, .draining, .failed, .lingering, .closed: return true
        }
    }

    /// An answer that is written in pieces begins; ``answered()`` says when it has ended.
    ///
    /// - Parameter closing: Only the end of the connection will tell the client where the answer ends.
    /// - Returns: Whether it is the connection's last answer. One that begins before the body has ended always is, since nobody
    ///   reads the rest meanwhile.
    func beginAnswer(closing: Bool) -> Bool {
        var isLast = closing || closesAfterAnswer
        switch state {
        case .headComplete(let exchange), .body(let exchange): isLast = isLast || !exchange.decoder.isComplete
        case .handling, .answering, .idle, .head, .draining, .failed, .lingering, .closed: break
        }
        state = .answering(isLast: isLast)
        return isLast
    }

    /// The answer has been written, or is in the hands of whoever writes.
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

    /// The caller has no room for the body of a request that is not with its handler yet: the request is refused.
    func hasNoRoom() -> Action {
        switch state {
        case .headComplete, .body, .handling: fail(Self.noRoom)
        case .idle, .head, .answering, .draining, .failed, .lingering, .closed: .needsInput
        }
    }

    /// The caller had no room for bytes that were not taken, and has dropped them: nothing can be read behind them. A request that is not with its
    /// handler yet is refused, one that is answered is the last.
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
        ProtocolError(.serviceUnavailable, "The server holds too many request bodies. Try again.")
    }

    // MARK: Other events

    /// The peer has shut its side, and everything that it sent before has been read.
    func peerClosed() -> Action {
        switch state {
        case .handling, .headComplete, .answering, .failed:
            // It may still read: what it has asked for is answered first.
            return .needsInput
        case .idle, .head, .body, .draining, .lingering, .closed:
            state = .closed
            return .close
        }
    }

    /// The wait that ``wait`` named took too long.
    func timedOut() -> Action {
        switch state {
        case .head, .body: return fail(ProtocolError(.requestTimeout, "The request did not arrive in time."))
        case .idle, .headComplete, .handling, .answering, .draining, .failed, .lingering, .closed:
            state = .closed
            return .close
        }
    }

    /// The server shuts down: the request in hand is the last.
    func shutDown() -> Action {
        isClosing = true
        guard case .idle = state else { return .needsInput }
        return shut()
    }
}
