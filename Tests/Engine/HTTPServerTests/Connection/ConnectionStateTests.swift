import HTTPTypes
import Net
import Testing

@testable import HTTPServer

/// A connection's state with its unread input, so that a test reads as a transcript.
private struct Transcript {
    var state: ConnectionState
    private var input: [UInt8] = []
    private(set) var body = ""
    private let maximumBodyBytes: Int

    init(maximumBodyBytes: Int = 1 << 20) {
        state = ConnectionState(limits: HeadLimits())
        self.maximumBodyBytes = maximumBodyBytes
    }

    /// Adds input, and returns the state's action for all unread input.
    mutating func read(_ text: String = "") -> String {
        input += Array(text.utf8)
        var received: [UInt8] = []
        let (taken, action) = input.withUnsafeBytes { state.read($0) { received += $0 } }
        body += String(decoding: received, as: UTF8.self)
        input.removeFirst(taken)
        return action.text
    }

    mutating func readBody() throws -> Bool {
        try state.readBody(upTo: maximumBodyBytes, isStreamed: false)
        return state.sendsContinue()
    }

    mutating func streamBody() throws { try state.readBody(upTo: maximumBodyBytes, isStreamed: true) }
    mutating func sendsContinue() -> Bool { state.sendsContinue() }
    mutating func beginAnswer(closing: Bool = false) -> Bool { state.beginAnswer(closing: closing) }
    mutating func answered() -> String { state.answered().text }
    mutating func peerClosed() -> String { state.peerClosed().text }
    mutating func timedOut() -> String { state.timedOut().text }
    mutating func shutDown(hasArrived: Bool = false) -> String { state.shutDown(hasArrived: hasArrived).text }
    var unread: Int { input.count }
}

extension ConnectionState.Action {
    fileprivate var text: String {
        switch self {
        case .needsInput: "needs input"
        case .decide(let head): "decide \(head.path)"
        case .handle: "handle"
        case .endBody: "end of body"
        case .failBody(let error): "fail body \(error.status.code)"
        case .refuse(let error): "refuse \(error.status.code)"
        case .linger: "linger"
        case .close: "close"
        }
    }
}

private let get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"

private func post(_ length: Int, _ fields: String = "") -> String {
    "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: \(length)\r\n\(fields)\r\n"
}

@Suite("The state of a connection")
struct ConnectionStateTests {
    @Test("A request passes decision, body, handler and response, and the next one follows")
    func exchange() throws {
        var connection = Transcript()
        #expect(connection.state.wait == .nextRequest)
        #expect(connection.read(post(5) + "he") == "decide /p")
        #expect(try connection.readBody() == false)
        #expect(connection.read() == "needs input")
        #expect(connection.state.wait == .body)
        #expect(connection.read("llo") == "handle")
        #expect(connection.body == "hello")
        #expect(connection.state.wait == .handler)
        #expect(!connection.state.closesAfterAnswer)
        #expect(connection.answered() == "needs input")
        #expect(connection.state.wait == .nextRequest)
        #expect(connection.read(get) == "decide /a")
    }

    @Test("A pipelined request stays unread until the previous one is answered")
    func pipelining() throws {
        var connection = Transcript()
        #expect(connection.read(get + get) == "decide /a")
        _ = try connection.readBody()
        #expect(connection.read() == "handle")
        #expect(!connection.state.readsInput)
        #expect(connection.read() == "needs input")
        #expect(connection.unread == get.utf8.count)
        #expect(connection.answered() == "needs input")
        #expect(connection.read() == "decide /a")
        #expect(connection.unread == 0)
    }

    @Test("100 Continue is sent when the body is awaited, and not for an empty body")
    func continues() throws {
        var connection = Transcript()
        #expect(connection.read(post(5, "Expect: 100-continue\r\n")) == "decide /p")
        #expect(try connection.readBody() == true)
        #expect(connection.read() == "needs input")
        #expect(connection.read("hello") == "handle")
        var bare = Transcript()
        #expect(bare.read(post(0, "Expect: 100-continue\r\n")) == "decide /p")
        #expect(try bare.readBody() == false)
    }

    @Test("After an early response, the rest of a small body is discarded and the connection kept")
    func drains() {
        var connection = Transcript()
        #expect(connection.read(post(5) + "he") == "decide /p")
        #expect(!connection.state.closesAfterAnswer)
        #expect(connection.answered() == "needs input")
        #expect(connection.state.wait == .body)
        #expect(connection.read() == "needs input")
        #expect(connection.read("llo" + get) == "needs input")
        #expect(connection.body == "")
        #expect(connection.read() == "decide /a")
    }

    @Test("An early response to a large body ends the connection")
    func earlyAnswerToLargeBody() {
        var connection = Transcript()
        #expect(connection.read(post(ConnectionState.drainLimit + 1)) == "decide /p")
        #expect(connection.state.closesAfterAnswer)
        #expect(connection.answered() == "linger")
        #expect(connection.read("whatever") == "needs input")
        #expect(connection.unread == 0)
    }

    @Test("An early response to a client that expects 100 Continue ends the connection")
    func earlyAnswerToExpectation() {
        var connection = Transcript()
        #expect(connection.read(post(5, "Expect: 100-continue\r\n")) == "decide /p")
        #expect(connection.state.closesAfterAnswer)
        #expect(connection.answered() == "linger")
    }

    @Test("A chunked body is discarded up to a limit, then the connection ends")
    func drainsChunks() {
        let head = "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        var connection = Transcript()
        #expect(connection.read(head) == "decide /p")
        #expect(connection.answered() == "needs input")
        #expect(connection.read("1\r\na\r\n") == "needs input")
        let chunk = "8000\r\n" + String(repeating: "a", count: 0x8000) + "\r\n"
        #expect(connection.read(chunk) == "needs input")
        #expect(connection.read(chunk) == "linger")
    }

    @Test("A malformed body of an answered request ends the connection without a second response")
    func malformedWhileDraining() {
        var connection = Transcript()
        #expect(connection.read("POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n") == "decide /p")
        #expect(connection.answered() == "needs input")
        #expect(connection.read("x\r\n") == "linger")
    }

    @Test("A body with a declared length above the limit is refused before it is received")
    func announcedTooLarge() {
        var connection = Transcript(maximumBodyBytes: 4)
        #expect(connection.read(post(5)) == "decide /p")
        let error = #expect(throws: ProtocolError.self) { try connection.readBody() }
        #expect(error?.status == .contentTooLarge)
        #expect(connection.state.closesAfterAnswer)
        #expect(connection.answered() == "linger")
    }

    @Test("A body of exactly the limit is accepted")
    func largestBody() throws {
        var connection = Transcript(maximumBodyBytes: 5)
        #expect(connection.read(post(5)) == "decide /p")
        _ = try connection.readBody()
        #expect(connection.read("hello") == "handle")
    }

    @Test("A streamed body ends with endBody, and the response ends the exchange")
    func streams() throws {
        var connection = Transcript()
        #expect(connection.read(post(5) + "he") == "decide /p")
        try connection.streamBody()
        #expect(connection.read() == "needs input")
        #expect(connection.body == "he")
        #expect(connection.state.wait == .body)
        #expect(connection.read("llo" + get) == "end of body")
        #expect(connection.body == "hello")
        #expect(connection.state.wait == .handler)
        #expect(!connection.state.closesAfterAnswer)
        #expect(connection.answered() == "needs input")
        #expect(connection.read() == "decide /a")
    }

    @Test("An error in a streamed body goes to the handler, whose response is the last")
    func failsStream() throws {
        var malformed = Transcript()
        #expect(malformed.read("POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n") == "decide /p")
        try malformed.streamBody()
        #expect(malformed.read("1\r\nab") == "fail body 400")
        #expect(malformed.state.closesAfterAnswer)
        #expect(malformed.answered() == "linger")
        var slow = Transcript()
        #expect(slow.read(post(5)) == "decide /p")
        try slow.streamBody()
        #expect(slow.timedOut() == "fail body 408")
        #expect(slow.answered() == "linger")
    }

    @Test("For a streamed body, 100 Continue is sent on demand; a response without it is the last")
    func continuesStream() throws {
        let head = post(5, "Expect: 100-continue\r\n")
        var connection = Transcript()
        #expect(connection.read(head) == "decide /p")
        try connection.streamBody()
        #expect(connection.state.closesAfterAnswer)
        #expect([connection.sendsContinue(), connection.sendsContinue()] == [true, false])
        #expect(!connection.state.closesAfterAnswer)
        var early = Transcript()
        #expect(early.read(head) == "decide /p")
        try early.streamBody()
        #expect(early.answered() == "linger")
    }

    @Test("After a response within a streamed body, the rest of a small body is discarded")
    func answersInStream() throws {
        var connection = Transcript()
        #expect(connection.read(post(5) + "he") == "decide /p")
        try connection.streamBody()
        #expect(connection.read() == "needs input")
        #expect(connection.answered() == "needs input")
        #expect(connection.state.wait == .body)
        #expect(connection.read("llo" + get) == "needs input")
        #expect(connection.body == "he")
        #expect(connection.read() == "decide /a")
    }

    @Test("A streamed response leaves the next request unread until it ends")
    func answersInPieces() throws {
        var connection = Transcript()
        #expect(connection.read(get + get) == "decide /a")
        _ = try connection.readBody()
        #expect(connection.read() == "handle")
        #expect(connection.beginAnswer() == false)
        #expect(connection.state.wait == .handler)
        #expect(connection.read() == "needs input")
        #expect(connection.peerClosed() == "needs input")
        #expect(connection.answered() == "needs input")
        #expect(connection.read() == "decide /a")
    }

    @Test(
        "A streamed response is the last if the connection's end marks its end, or the body is incomplete"
    )
    func lastAnswerInPieces() throws {
        var old = Transcript()
        #expect(old.read(get) == "decide /a")
        _ = try old.readBody()
        #expect(old.read() == "handle")
        #expect(old.beginAnswer(closing: true) == true)
        #expect(old.answered() == "linger")
        var early = Transcript()
        #expect(early.read(post(5) + "he") == "decide /p")
        try early.streamBody()
        #expect(early.read() == "needs input")
        #expect(early.beginAnswer() == true)
        #expect(early.read("llo") == "needs input")
        #expect(early.answered() == "linger")
    }

    @Test("A refusal discards the input and is the last response")
    func refusal() {
        var connection = Transcript()
        #expect(connection.read("GET / FOO\r\n\r\n" + get) == "refuse 400")
        #expect(connection.unread == 0)
        #expect(connection.state.closesAfterAnswer)
        #expect(connection.answered() == "linger")
        #expect(connection.state.wait == .peerClose)
        #expect(connection.read(get) == "needs input")
        #expect(connection.unread == 0)
    }

    @Test("An HTTP/1.0 connection ends after its response unless the client requested keep-alive")
    func http10() throws {
        var connection = Transcript()
        #expect(connection.read("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n") == "decide /a")
        _ = try connection.readBody()
        #expect(connection.read() == "handle")
        #expect(connection.answered() == "needs input")
        #expect(connection.read("GET /a HTTP/1.0\r\n\r\n") == "decide /a")
        _ = try connection.readBody()
        #expect(connection.read() == "handle")
        #expect(connection.answered() == "linger")
    }

    @Test("A peer that closes its side gets its response before the connection closes")
    func peerClosesWhileHandled() throws {
        var connection = Transcript()
        #expect(connection.read(get) == "decide /a")
        _ = try connection.readBody()
        #expect(connection.read() == "handle")
        #expect(connection.peerClosed() == "needs input")
        #expect(connection.answered() == "needs input")
        #expect(connection.peerClosed() == "close")
    }

    @Test(
        "A peer that closes its side within a request gets no response",
        arguments: ["", "GET", post(5), post(5) + "he"]
    )
    func peerClosesEarly(sent: String) throws {
        var connection = Transcript()
        if connection.read(sent).hasPrefix("decide") {
            _ = try connection.readBody()
            #expect(connection.read() == "needs input")
        }
        #expect(connection.peerClosed() == "close")
    }

    @Test("A slow head gets 408")
    func slowHead() {
        var connection = Transcript()
        #expect(connection.read("GET / HT") == "needs input")
        #expect(connection.state.wait == .head)
        #expect(connection.timedOut() == "refuse 408")
        #expect(connection.answered() == "linger")
    }

    @Test("A slow body gets 408")
    func slowBody() throws {
        var connection = Transcript()
        #expect(connection.read(post(5)) == "decide /p")
        _ = try connection.readBody()
        #expect(connection.read("he") == "needs input")
        #expect(connection.timedOut() == "refuse 408")
        #expect(connection.answered() == "linger")
    }

    @Test("A timeout closes a connection that is idle or discards a body")
    func idle() {
        var connection = Transcript()
        #expect(connection.timedOut() == "close")
        var draining = Transcript()
        #expect(draining.read(post(5)) == "decide /p")
        #expect(draining.answered() == "needs input")
        #expect(draining.timedOut() == "close")
    }

    @Test("A shutdown ends an idle connection, and later input is not parsed")
    func shutDownIdle() {
        var connection = Transcript()
        #expect(connection.shutDown() == "linger")
        #expect(connection.read(get) == "needs input")
    }

    @Test("A shutdown lets a request that has arrived but is not read yet be the last one")
    func shutDownArrived() {
        var connection = Transcript()
        #expect(connection.shutDown(hasArrived: true) == "needs input")
        #expect(connection.read(get) == "decide /a")
        #expect(connection.answered() == "linger")
    }

    @Test("A shutdown lets the current request finish as the last one")
    func shutDownBusy() throws {
        var connection = Transcript()
        #expect(connection.read(post(5) + "he") == "decide /p")
        _ = try connection.readBody()
        #expect(connection.read() == "needs input")
        #expect(connection.shutDown() == "needs input")
        #expect(connection.read("llo" + get) == "handle")
        #expect(connection.state.closesAfterAnswer)
        #expect(connection.answered() == "linger")
        #expect(connection.read() == "needs input")
    }

    @Test("A shutdown while a body is discarded ends the connection after that body")
    func shutDownDraining() {
        var connection = Transcript()
        #expect(connection.read(post(5)) == "decide /p")
        #expect(connection.answered() == "needs input")
        #expect(connection.shutDown() == "needs input")
        #expect(connection.read("hello") == "linger")
    }

    @Test("While its caller decides about a head, a connection reads nothing and has no timeout")
    func deciding() throws {
        var it = Transcript()
        #expect(it.read(post(3) + "bod") == "decide /p")
        #expect(it.read() == "needs input" && it.unread == 3)
        #expect(it.state.isDeciding && !it.state.readsInput && it.state.wait == .handler)
        #expect(it.peerClosed() == "needs input")
        let continues = try it.readBody()
        #expect(!continues)
        #expect(!it.state.isDeciding && it.state.readsInput && it.state.wait == .body)
        #expect(it.read() == "handle")
        #expect(it.body == "bod")
        var empty = Transcript()
        #expect(empty.read(post(0)) == "decide /p")
        #expect(!empty.state.isWhole)
        _ = try empty.readBody()
        #expect(empty.state.isWhole)
        #expect(empty.read() == "handle")
    }

    @Test("A request whose body exceeds the memory is refused, unless it was answered already")
    func noRoom() throws {
        var it = Transcript()
        #expect(it.state.hasNoRoom().text == "needs input")
        #expect(it.read(post(9) + "bo") == "decide /p")
        _ = try it.readBody()
        #expect(it.read() == "needs input")
        #expect(it.state.hasNoRoom().text == "refuse 503")
        #expect(it.state.hasNoRoom().text == "needs input")
        #expect(it.answered() == "linger")
        var other = Transcript()
        #expect(other.read(post(9)) == "decide /p")
        #expect(other.state.hasNoRoom().text == "refuse 503")
    }

    @Test("After dropped input, a pending request is refused and a running one is the last")
    func droppedInput() throws {
        var head = Transcript()
        #expect(head.read("GET / HTTP/1.1\r\nX-A: 1\r\n") == "needs input")
        #expect(head.state.droppedInput().text == "refuse 503")
        #expect(head.read("x") == "needs input")
        #expect(head.answered() == "linger")
        var body = Transcript()
        #expect(body.read(post(9) + "bo") == "decide /p")
        _ = try body.readBody()
        #expect(body.read() == "needs input")
        #expect(body.state.droppedInput().text == "refuse 503")
        var handled = Transcript()
        #expect(handled.read(post(0)) == "decide /p")
        _ = try handled.readBody()
        #expect(handled.read() == "handle")
        #expect(handled.state.droppedInput().text == "needs input")
        #expect(handled.answered() == "linger")
        let idle = Transcript()
        #expect(idle.state.droppedInput().text == "linger")
    }
}
