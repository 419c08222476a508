import HTTPTypes
import Testing

@testable import HTTPServer

/// A connection's state and the bytes that it has not taken, so that a test reads as a transcript.
private struct Transcript {
    var state: ConnectionState
    private var input: [UInt8] = []
    private(set) var body = ""
    private let maximumBodyBytes: Int

    init(maximumBodyBytes: Int = 1 << 20) {
        state = ConnectionState(limits: HeadLimits())
        self.maximumBodyBytes = maximumBodyBytes
    }

    /// More bytes come: what the state makes of all it has not taken.
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
    mutating func shutDown() -> String { state.shutDown().text }
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
    @Test("A request is decided about, read, handled and answered, and the next one follows")
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

    @Test("A pipelined request waits unread until the one before it is answered")
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

    @Test("Leave to send the body is given once it is wanted, and not when there is none")
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

    @Test("An early answer to a small body has the rest of it thrown away and keeps the connection")
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

    @Test("An early answer to a large body ends the connection")
    func earlyAnswerToLargeBody() {
        var connection = Transcript()
        #expect(connection.read(post(ConnectionState.drainLimit + 1)) == "decide /p")
        #expect(connection.state.closesAfterAnswer)
        #expect(connection.answered() == "linger")
        #expect(connection.read("whatever") == "needs input")
        #expect(connection.unread == 0)
    }

    @Test("An early answer to a client that waits for leave ends the connection: it may send the body or not")
    func earlyAnswerToExpectation() {
        var connection = Transcript()
        #expect(connection.read(post(5, "Expect: 100-continue\r\n")) == "decide /p")
        #expect(connection.state.closesAfterAnswer)
        #expect(connection.answered() == "linger")
    }

    @Test("A chunked body is thrown away up to a limit, and then the connection ends")
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

    @Test("A malformed body whose request has been answered ends the connection without a second answer")
    func malformedWhileDraining() {
        var connection = Transcript()
        #expect(connection.read("POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n") == "decide /p")
        #expect(connection.answered() == "needs input")
        #expect(connection.read("x\r\n") == "linger")
    }

    @Test("A body that announces more than the limit is refused before any of it comes")
    func announcedTooLarge() {
        var connection = Transcript(maximumBodyBytes: 4)
        #expect(connection.read(post(5)) == "decide /p")
        let error = #expect(throws: ProtocolError.self) { try connection.readBody() }
        #expect(error?.status == .contentTooLarge)
        #expect(connection.state.closesAfterAnswer)
        #expect(connection.answered() == "linger")
    }

    @Test("A body of exactly the limit is taken")
    func largestBody() throws {
        var connection = Transcript(maximumBodyBytes: 5)
        #expect(connection.read(post(5)) == "decide /p")
        _ = try connection.readBody()
        #expect(connection.read("hello") == "handle")
    }

    @Test("A body that is read as it comes is told its end, and the answer ends the exchange")
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

    @Test("A body that is read as it comes and cannot be read on is the handler's to answer, for the last time")
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

    @Test("Leave to send a body that is read as it comes is given when it is asked for; an answer without is the last")
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

    @Test("An answer that the handler gives before the end of the body has the rest thrown away, if that is little")
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

    @Test("An answer in pieces leaves the next request unread until it has ended")
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
        "An answer in pieces is the last when only the end of the connection ends it, or the body has not come to its end"
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

    @Test("A refusal swallows what came with it, and is the last answer")
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

    @Test("HTTP/1.0 ends the connection after its answer unless it asked to keep it")
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

    @Test("A peer that shuts its side is answered before the connection closes")
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
        "A peer that shuts its side in the middle of a request is not answered",
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

    @Test("A head that takes too long is told so")
    func slowHead() {
        var connection = Transcript()
        #expect(connection.read("GET / HT") == "needs input")
        #expect(connection.state.wait == .head)
        #expect(connection.timedOut() == "refuse 408")
        #expect(connection.answered() == "linger")
    }

    @Test("A body that takes too long is told so")
    func slowBody() throws {
        var connection = Transcript()
        #expect(connection.read(post(5)) == "decide /p")
        _ = try connection.readBody()
        #expect(connection.read("he") == "needs input")
        #expect(connection.timedOut() == "refuse 408")
        #expect(connection.answered() == "linger")
    }

    @Test("A connection without a request, or whose body is being thrown away, is closed when its time is over")
    func idle() {
        var connection = Transcript()
        #expect(connection.timedOut() == "close")
        var draining = Transcript()
        #expect(draining.read(post(5)) == "decide /p")
        #expect(draining.answered() == "needs input")
        #expect(draining.timedOut() == "close")
    }

    @Test("A shutdown ends an idle connection, and nothing that is sent to it later is read")
    func shutDownIdle() {
        var connection = Transcript()
        #expect(connection.shutDown() == "linger")
        #expect(connection.read(get) == "needs input")
    }

    @Test("A shutdown lets the request in hand be answered, says that it was the last, and reads no other")
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

    @Test("A shutdown while a body is thrown away ends the connection with that body")
    func shutDownDraining() {
        var connection = Transcript()
        #expect(connection.read(post(5)) == "decide /p")
        #expect(connection.answered() == "needs input")
        #expect(connection.shutDown() == "needs input")
        #expect(connection.read("hello") == "linger")
    }

    @Test("While its caller decides about a head, a connection reads nothing and waits for nobody")
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

    @Test("A request for whose body there is no room is refused, one that is answered already is not")
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

    @Test("Nothing is read behind dropped input: a request that is not handled yet is refused, an answer is the last")
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
