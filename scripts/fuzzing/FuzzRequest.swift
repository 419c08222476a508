import HTTPTypes

@testable import HTTPServer
@testable import Net

// An input is four bytes of choices, each with the default "0", followed by the bytes that a client sends.

/// Checks that the requests and rejections of a connection do not depend on how its bytes are split, and that every
/// accepted request is valid.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzRequest(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard let start, count > 4 else { return 0 }
    let input = Array(UnsafeBufferPointer(start: start, count: count))
    let stream = Array(input[4...])
    let limits = input[0] &- UInt8(ascii: "0")
    let run = Run(
        limits: HeadLimits(
            headerBytes: [16 * 1024, 512, 128, 64][Int(limits & 3)],
            targetBytes: [8 * 1024, 64, 16, 4][Int(limits >> 2 & 3)],
            fields: [100, 8, 3, 1][Int(limits >> 4 & 3)]
        ),
        maximumBodyBytes: [1 << 20, 64, 16, 0][Int(limits >> 6)],
        earlyAnswers: input[1] &- UInt8(ascii: "0")
    )
    let whole = run.events(of: [stream[...]], suspend: false, readAsItComes: false)
    let pieces = pieces(of: stream, UInt16(input[2] &- UInt8(ascii: "0")), UInt16(input[3] &- UInt8(ascii: "0")))
    let cut = run.events(of: pieces, suspend: input[3] & 1 == 1, readAsItComes: input[3] & 2 == 2)
    guard whole == cut else {
        fatalError("the same bytes give\n\(whole.map(\.text))\nin one piece, but split\n\(cut.map(\.text))")
    }
    do {
        try SecondReading(stream: stream, limits: run.limits, maximumBodyBytes: run.maximumBodyBytes).check(whole)
    } catch {
        fatalError("\(error): \(whole.map(\.text))")
    }
    return 0
}

private struct Run {
    let limits: HeadLimits
    let maximumBodyBytes: Int
    let earlyAnswers: UInt8

    func events(of pieces: [ArraySlice<UInt8>], suspend: Bool, readAsItComes: Bool) -> [RecordedEvent] {
        var handlers = RecordedConnection.Handlers()
        handlers.earlyAnswers = earlyAnswers
        handlers.suspend = suspend
        handlers.readAsItComes = readAsItComes
        var connection = RecordedConnection(limits: limits, maximumBodyBytes: maximumBodyBytes, handlers: handlers)
        for piece in pieces { connection.receive(piece) }
        connection.finish()
        return connection.events
    }
}

/// Splits `stream` as two bytes specify: after each byte, once, or into short or longer pieces of varying length.
private func pieces(of stream: [UInt8], _ first: UInt16, _ second: UInt16) -> [ArraySlice<UInt8>] {
    let seed = (first >> 2) << 8 | second
    switch first & 3 {
    case 0: return stream.indices.map { stream[$0...$0] }
    case 1:
        let place = Int(seed) % stream.count
        return [stream[..<place], stream[place...]]
    default:
        let longest: UInt32 = first & 1 == 0 ? 8 : 64
        var random = UInt32(seed) &* 2 + 1
        var pieces: [ArraySlice<UInt8>] = []
        var rest = stream[...]
        while !rest.isEmpty {
            random = random &* 1_664_525 &+ 1_013_904_223
            let piece = rest.prefix(Int(random >> 16 % longest) + 1)
            pieces.append(piece)
            rest = rest.dropFirst(piece.count)
        }
        return pieces
    }
}

extension RecordedEvent {
    fileprivate var text: String {
        switch self {
        case .continues: "100"
        case .request(let request):
            "\(request.head.method) \(request.head.path) until \(request.end ?? -1) with \(request.body.count) bytes"
        case .refused(let status): "\(status)"
        case .lingers: "linger"
        case .closes: "close"
        }
    }
}

extension HeadLimits {
    fileprivate init(headerBytes: Int, targetBytes: Int, fields: Int) {
        self.init()
        self.headerBytes = headerBytes
        self.targetBytes = targetBytes
        self.fields = fields
    }
}
