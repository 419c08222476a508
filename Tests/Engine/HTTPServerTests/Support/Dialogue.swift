import HTTPTypes
import Net

@testable import HTTPServer

/// A connection without a socket, whose caller responds to each request as soon as it is complete.
struct Dialogue {
    /// The events in order: `POST /a?q=1 body`, `100` for a continue, the status of a refusal, `linger`.
    private(set) var events: [String] = []
    private let state: ConnectionState
    private let maximumBodyBytes: Int
    private var input: [UInt8] = []
    private var head: RequestHead?
    private var body: [UInt8] = []

    init(limits: HeadLimits = HeadLimits(), maximumBodyBytes: Int = 1 << 20) {
        state = ConnectionState(limits: limits)
        self.maximumBodyBytes = maximumBodyBytes
    }

    /// Returns the events caused by `pieces` that arrive one after the other.
    static func events(
        _ pieces: [ArraySlice<UInt8>],
        limits: HeadLimits = HeadLimits(),
        maximumBodyBytes: Int = 1 << 20
    ) -> [String] {
        var dialogue = Dialogue(limits: limits, maximumBodyBytes: maximumBodyBytes)
        for piece in pieces { dialogue.receive(piece) }
        return dialogue.events
    }

    mutating func receive(_ piece: ArraySlice<UInt8>) {
        input += piece
        while true {
            var received: [UInt8] = []
            let (taken, action) = input.withUnsafeBytes { state.read($0) { received += $0 } }
            body += received
            input.removeFirst(taken)
            switch action {
            case .needsInput:
                guard taken > 0, !input.isEmpty else { return }
            case .decide(let head):
                self.head = head
                do {
                    try state.readBody(upTo: maximumBodyBytes, isStreamed: false)
                    if state.sendsContinue() { events.append("100") }
                } catch {
                    refuse(error)
                }
            case .handle:
                guard let head else { return }
                let query = head.queryRange.map { "?" + String(decoding: head.bytes[$0], as: UTF8.self) } ?? ""
                let text = body.isEmpty ? "" : " " + String(decoding: body, as: UTF8.self)
                events.append("\(head.method) \(head.path)\(query)\(text)")
                body = []
                note(state.answered())
            case .refuse(let error): refuse(error)
            case .linger, .close: note(action)
            case .endBody, .failBody: events.append("unexpected streamed body")
            }
        }
    }

    private mutating func refuse(_ error: ProtocolError) {
        events.append("\(error.status.code)")
        note(state.answered())
    }

    private mutating func note(_ action: ConnectionState.Action) {
        if case .linger = action { events.append("linger") }
        if case .close = action { events.append("close") }
    }
}

/// Returns the ways in which the network may deliver `bytes`: whole, cut once at every offset, and byte by byte.
func deliveries(of bytes: [UInt8]) -> [[ArraySlice<UInt8>]] {
    [[bytes[...]]] + (1..<max(1, bytes.count)).map { [bytes[..<$0], bytes[$0...]] } + [
        bytes.indices.map { bytes[$0...$0] }
    ]
}
