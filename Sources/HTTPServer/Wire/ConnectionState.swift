internal import HTTPTypes

/// What a connection of HTTP/1.1 is doing, without the socket: bytes and events go in, and what to do comes out.
///
/// One request is in hand at a time. What a client has sent after it waits unread in the caller's buffer, so that pipelined
/// requests are answered in order and cost nothing but the bytes they are.
struct ConnectionState {
    private enum State {
        /// Nothing of the next request has come. Can transition to `head`, `closed`.
        case idle
        /// Part of a head has come. Can transition to `headComplete`, `failed`, `closed`.
        case head(RequestHeadParser)
        /// The caller decides what to do with a head. Can transition to `body`, or by an early answer to `draining`, `idle`,
        /// `lingering`.
        case headComplete(RequestHead)
        /// Part of a body has come. Can transition to `handling`, `failed`, `closed`.
        case body(RequestHead, BodyDecoder)
        /// The request is whole and with its handler. Can transition to `idle`, `lingering`, `closed`.
        case handling(RequestHead)
        /// The answer went out before the body had come: the rest is read and thrown away. Can transition to `idle`, `lingering`.
        case draining(BodyDecoder, budget: Int)
        /// The bytes were refused; an answer that says so is to follow. Can transition to `lingering`.
        case failed
        /// Our side is shut; what the peer still sends is thrown away until it closes too. Can transition to `closed`.
        case lingering
        case closed
    }

    /// What the caller is to do next.
    enum Action {
        /// Wait for more bytes.
        case needsInput
        /// Decide about a head: ``readBody()``, or answer early.
        case decide(RequestHead)
        /// The request is whole: have it handled, then say ``answered()``.
        case handle(RequestHead)
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
    private let maximumBodyBytes: Int
    private var state = State.idle
    private(set) var bodyBytes = 0
    /// No request after the one in hand: the server is shutting down.
    private var isClosing = false

    init(limits: HeadLimits, maximumBodyBytes: Int) {
        self.limits = limits
        self.maximumBodyBytes = maximumBodyBytes
    }

    /// What the connection waits for.
    var wait: Wait {
        switch state {
        case .idle: .nextRequest
        case .head, .headComplete: .head
        case .body, .draining: .body
        case .handling, .failed: .handler
        case .lingering, .closed: .peerClose
        }
    }

    /// Whether bytes are of use now; otherwise they wait in the caller's buffer.
    var readsInput: Bool {
        switch state {
        case .idle, .head, .body, .draining, .lingering: true
        case .headComplete, .handling, .failed, .closed: false
        }
    }

    /// Reads on in the bytes that have come.
    ///
    /// - Parameters:
    ///   - input: All bytes not yet taken.
    ///   - receiveBody: Is given runs of the body.
    /// - Returns: How many bytes of `input` were taken, and what to do. To be called again until it says `needsInput`.
    mutating func read(
        _ input: UnsafeRawBufferPointer,
        _ receiveBody: (UnsafeRawBufferPointer) -> Void
    ) -> (taken: Int, action: Action) {
        do throws(ProtocolError) {
            switch state {
            case .idle:
                guard !input.isEmpty else { return (0, isClosing ? shut() : .needsInput) }
                return try readHead(RequestHeadParser(limits: limits), input)
            case .head(let parser):
                return try readHead(parser, input)
            case .body(let head, var decoder):
                var received = bodyBytes
                let taken = try decoder.decode(input) { run in
                    received += run.count
                    if received <= maximumBodyBytes { receiveBody(run) }
                }
                bodyBytes = received
                guard received <= maximumBodyBytes else { throw bodyTooLarge }
                guard decoder.isComplete else {
                    state = .body(head, decoder)
                    return (taken, .needsInput)
                }
                state = .handling(head)
                return (taken, .handle(head))
            case .draining(var decoder, let budget):
                // Whatever is wrong with this body, its request has been answered: there is nothing more to say.
                guard let taken = try? decoder.decode(input, { _ in }), taken <= budget else {
                    return (input.count, shut())
                }
                state = decoder.isComplete ? .idle : .draining(decoder, budget: budget - taken)
                return decoder.isComplete ? nextAfterExchange(taken) : (taken, .needsInput)
            case .lingering:
                return (input.count, .needsInput)
            case .headComplete, .handling, .failed, .closed:
                return (0, .needsInput)
            }
        } catch {
            state = .failed
            return (input.count, .refuse(error))
        }
    }

    private mutating func readHead(
        _ parser: RequestHeadParser,
        _ input: UnsafeRawBufferPointer
    ) throws(ProtocolError) -> (taken: Int, action: Action) {
        var parser = parser
        guard let (head, length) = try parser.parse(input) else {
            state = .head(parser)
            return (0, .needsInput)
        }
        state = .headComplete(head)
        return (length, .decide(head))
    }

    private var bodyTooLarge: ProtocolError {
        ProtocolError(.contentTooLarge, "The body is larger than \(maximumBodyBytes) bytes.")
    }

    /// The caller wants the request's body.
    ///
    /// - Returns: Whether `100 Continue` is to be sent first.
    /// - Throws: ``ProtocolError`` when the body says that it is too large: then nothing of it is read.
    mutating func readBody() throws(ProtocolError) -> Bool {
        guard case .headComplete(let head) = state else { return false }
        if case .fixed(let length) = head.framing, length > maximumBodyBytes {
            state = .failed
            throw bodyTooLarge
        }
        bodyBytes = 0
        let decoder = BodyDecoder(head.framing)
        state = .body(head, decoder)
        return head.expectsContinue && !decoder.isComplete
    }

    /// Whether the answer that is about to be written is the connection's last.
    var closesAfterAnswer: Bool {
        guard !isClosing else { return true }
        switch state {
        case .handling(let head): return !head.keepsAlive
        case .headComplete(let head):
            // A client that waits for `100 Continue` may or may not send its body after a refusal: nobody can tell (RFC 9110
            // §10.1.1), so the connection ends.
            guard head.keepsAlive, !head.expectsContinue else { return true }
            guard let remaining = BodyDecoder(head.framing).remaining else { return false }
            return remaining > Self.drainLimit
        case .idle, .head, .body, .draining, .failed, .lingering, .closed: return true
        }
    }

    /// The answer has been written, or is in the hands of whoever writes.
    mutating func answered() -> Action {
        guard !closesAfterAnswer else { return shut() }
        guard case .headComplete(let head) = state else {
            state = .idle
            return .needsInput
        }
        let decoder = BodyDecoder(head.framing)
        state = decoder.isComplete ? .idle : .draining(decoder, budget: Self.drainLimit)
        return .needsInput
    }

    private mutating func nextAfterExchange(_ taken: Int) -> (taken: Int, action: Action) {
        isClosing ? (taken, shut()) : (taken, .needsInput)
    }

    private mutating func shut() -> Action {
        state = .lingering
        return .linger
    }

    /// The peer has shut its side.
    mutating func peerClosed() -> Action {
        switch state {
        case .handling, .headComplete, .failed:
            // It may still read: what it has asked for is answered first.
            return .needsInput
        case .idle, .head, .body, .draining, .lingering, .closed:
            state = .closed
            return .close
        }
    }

    /// The wait that ``wait`` named took too long.
    mutating func timedOut() -> Action {
        switch state {
        case .head, .body:
            state = .failed
            return .refuse(ProtocolError(.requestTimeout, "The request did not arrive in time."))
        case .idle, .headComplete, .handling, .draining, .failed, .lingering, .closed:
            state = .closed
            return .close
        }
    }

    /// The server shuts down: the request in hand is the last.
    mutating func shutDown() -> Action {
        isClosing = true
        guard case .idle = state else { return .needsInput }
        return shut()
    }
}
