import HTTPTypes
import Net

@testable import HTTPServer

/// A request that a connection accepted, with its position in the byte stream.
struct RecordedRequest: Equatable {
    let head: RequestHead
    /// The end of the head in the stream.
    let headEnd: Int
    /// The end of the whole request in the stream. `nil` if the request was answered before its body was read.
    var end: Int?
    var body: [UInt8] = []

    static func == (left: RecordedRequest, right: RecordedRequest) -> Bool {
        left.head.bytes == right.head.bytes && left.head.pathRange == right.head.pathRange
            && left.head.queryRange == right.head.queryRange && left.head.framing == right.head.framing
            && left.headEnd == right.headEnd && left.end == right.end && left.body == right.body
    }
}

/// An action of a connection in response to input.
enum RecordedEvent: Equatable {
    case continues
    case request(RecordedRequest)
    case refused(status: Int)
    case lingers
    case closes
}

/// A connection without a socket that records the accepted and refused requests.
///
/// Unlike ``Dialogue``, it keeps heads and offsets for comparison with the input bytes. Each call reads from an exactly
/// sized allocation, so that AddressSanitizer detects a read beyond the input.
struct RecordedConnection {
    /// The behaviour of a connection's handlers. It must not affect which requests are accepted.
    struct Handlers {
        /// A bit mask of the requests, by index, that are answered before their body is read.
        var earlyAnswers: UInt8 = 0
        /// Whether handlers suspend: a response begins at once and ends with the next input or with ``finish()``.
        var suspend = false
        /// Whether handlers stream the body.
        var readAsItComes = false
    }

    private(set) var events: [RecordedEvent] = []
    private var state: ConnectionState
    private let maximumBodyBytes: Int
    private let handlers: Handlers
    private var decided = 0
    private var input: [UInt8] = []
    private var taken = 0
    private var request: RecordedRequest?
    private var isAnswering = false

    init(limits: HeadLimits, maximumBodyBytes: Int, handlers: Handlers = Handlers()) {
        state = ConnectionState(limits: limits)
        self.maximumBodyBytes = maximumBodyBytes
        self.handlers = handlers
    }

    mutating func receive(_ piece: ArraySlice<UInt8>) {
        input += piece
        endAnswer()
        read()
    }

    /// Ends the input: every pending request is answered.
    mutating func finish() {
        while isAnswering {
            endAnswer()
            read()
        }
    }

    private mutating func endAnswer() {
        guard isAnswering else { return }
        isAnswering = false
        note(state.answered())
    }

    private mutating func read() {
        while !isAnswering {
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: input.count, alignment: 1)
            defer { copy.deallocate() }
            copy.copyBytes(from: input)
            var run: [UInt8] = []
            let (count, action) = state.read(UnsafeRawBufferPointer(copy)) { run += $0 }
            precondition(count >= 0 && count <= input.count, "more bytes were consumed than given")
            request?.body += run
            taken += count
            input.removeFirst(count)
            switch action {
            case .needsInput:
                guard count > 0, !input.isEmpty else { return }
            case .decide(let head): decide(head)
            case .handle, .endBody: answer()
            case .refuse(let error), .failBody(let error): refuse(error)
            case .linger, .close: note(action)
            }
        }
    }

    private mutating func decide(_ head: RequestHead) {
        request = RecordedRequest(head: head, headEnd: taken)
        let isEarly = decided < 8 && handlers.earlyAnswers >> decided & 1 == 1
        decided += 1
        do throws(ProtocolError) {
            if isEarly {
                record()
                note(state.answered())
            } else {
                try state.readBody(upTo: maximumBodyBytes, isStreamed: handlers.readAsItComes)
                if state.sendsContinue() { events.append(.continues) }
            }
        } catch {
            refuse(error)
        }
    }

    private mutating func answer() {
        request?.end = taken
        record()
        if handlers.suspend {
            _ = state.beginAnswer(closing: false)
            isAnswering = true
        } else {
            note(state.answered())
        }
    }

    private mutating func record() {
        if let request { events.append(.request(request)) }
        request = nil
    }

    private mutating func refuse(_ error: ProtocolError) {
        request = nil
        events.append(.refused(status: error.status.code))
        note(state.answered())
    }

    private mutating func note(_ action: ConnectionState.Action) {
        if case .linger = action { events.append(.lingers) }
        if case .close = action { events.append(.closes) }
    }
}
