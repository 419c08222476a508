import HTTPTypes
import Net
import TestSupport
import Testing

@testable import HTTPServer

/// Randomly generated requests, reproducible by seed.
@Suite("Random requests, cut anywhere", .timeLimit(.minutes(1)))
struct CutAnywhereTests {
    @Test("Valid requests are parsed as generated, wherever they are cut", arguments: 0..<16 as Range<UInt64>)
    func valid(seed: UInt64) throws {
        var maker = RequestMaker(seed: seed)
        let (stream, meant) = maker.conversation()
        let whole = events(of: [stream[...]], RecordedConnection.Handlers())
        #expect(whole.compactMap(\.request) == meant)
        #expect(whole.allSatisfy { !$0.isRefusal })
        try check(whole, stream)
        let cut = (0...stream.count).first { place in
            var handlers = RecordedConnection.Handlers()
            handlers.suspend = place & 1 == 1
            handlers.readAsItComes = place & 2 == 2
            return events(of: [stream[..<place], stream[place...]], handlers) != whole
        }
        #expect(cut == nil, "a cut changes the result")
        #expect(events(of: stream.indices.map { stream[$0...$0] }, RecordedConnection.Handlers()) == whole)
    }

    @Test("The result for faulty requests does not depend on where they are cut", arguments: 0..<120 as Range<UInt64>)
    func mutated(seed: UInt64) throws {
        var maker = RequestMaker(seed: seed)
        let stream = maker.mutated(maker.conversation().stream)
        var handlers = RecordedConnection.Handlers()
        handlers.earlyAnswers = maker.random.next() & 3 == 0 ? 0b101 : 0
        let whole = events(of: [stream[...]], handlers)
        try check(whole, stream)
        for length in [1, 3, 20, 100] {
            handlers.suspend.toggle()
            handlers.readAsItComes = length > 3
            let pieces = maker.pieces(of: stream, upTo: length)
            #expect(events(of: pieces, handlers) == whole, "pieces of \(pieces.map(\.count)) bytes change the result")
        }
    }

    private func events(
        of pieces: [ArraySlice<UInt8>],
        _ handlers: RecordedConnection.Handlers
    ) -> [RecordedEvent] {
        var connection = RecordedConnection(limits: HeadLimits(), maximumBodyBytes: 1 << 20, handlers: handlers)
        for piece in pieces { connection.receive(piece) }
        connection.finish()
        return connection.events
    }

    private func check(_ events: [RecordedEvent], _ stream: [UInt8]) throws {
        try SecondReading(stream: stream, limits: HeadLimits(), maximumBodyBytes: 1 << 20).check(events)
    }
}

/// The intended content of a generated request.
private struct Meaning: Equatable {
    var method = ""
    var path = ""
    var query: String?
    var body: [UInt8] = []
}

extension RecordedEvent {
    fileprivate var request: Meaning? {
        guard case .request(let request) = self else { return nil }
        let head = request.head
        let query = head.queryRange.map { String(decoding: head.bytes[$0], as: UTF8.self) }
        return Meaning(method: head.method.rawValue, path: head.path, query: query, body: request.body)
    }

    fileprivate var isRefusal: Bool {
        guard case .refused = self else { return false }
        return true
    }
}

/// Generates, corrupts and cuts requests.
private struct RequestMaker {
    var random: SplitMix64

    init(seed: UInt64) {
        random = SplitMix64(seed: seed)
    }

    private mutating func chance(_ percent: Int) -> Bool {
        Int.random(in: 0..<100, using: &random) < percent
    }

    private mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[Int.random(in: 0..<elements.count, using: &random)]
    }

    private mutating func text(from characters: String, _ lengths: ClosedRange<Int>) -> String {
        let characters = Array(characters)
        return String((0..<Int.random(in: lengths, using: &random)).map { _ in pick(characters) })
    }

    // MARK: Valid requests

    /// Returns one to four consecutive requests and their content.
    mutating func conversation() -> (stream: [UInt8], meant: [Meaning]) {
        var stream: [UInt8] = []
        var meant: [Meaning] = []
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            var meaning = Meaning()
            stream += request(&meaning)
            meant.append(meaning)
        }
        return (stream, meant)
    }

    private mutating func request(_ meaning: inout Meaning) -> [UInt8] {
        let isOld = chance(10)
        meaning.method = pick(["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS"])
        let target = target(&meaning)
        var fields = otherFields()
        if !isOld || chance(50) {
            fields.append(field("Host", pick(["a", "A.b-c:80", "[::1]:8080", "x%20y", "1.2.3.4:"])))
        }
        if isOld { fields.append(field("Connection", pick(["keep-alive", "x, Keep-Alive"]))) }
        let body = body(isOld: isOld, &meaning, &fields)
        fields.shuffle(using: &random)
        let line = "\(meaning.method) \(target) HTTP/1.\(isOld ? 0 : 1)\r\n"
        return Array(((chance(20) ? "\r\n" : "") + line + fields.joined() + "\r\n").utf8) + body
    }

    private mutating func target(_ meaning: inout Meaning) -> String {
        if meaning.method == "OPTIONS", chance(30) {
            meaning.path = "*"
            return "*"
        }
        let characters = "abcXYZ019-._~!$&'()*+,;=:@/%"
        meaning.path = "/" + text(from: characters, 0...20)
        if chance(50) { meaning.query = text(from: characters + "?", 0...20) }
        let origin = meaning.path + (meaning.query.map { "?" + $0 } ?? "")
        return chance(20) ? pick(["http://h", "HTTPS://h.example:443", "http://[2001:db8::1]"]) + origin : origin
    }

    private mutating func otherFields() -> [String] {
        (0..<Int.random(in: 0...4, using: &random)).map { _ in
            let name = text(from: "abcXYZ019!#$%&'*+-.^_`|~", 1...12)
            return field("X" + name, text(from: "abc XYZ:;,=\"\\\t/카é", 0...20))
        }
    }

    /// Returns a field line with a random case of its name and random space around its value.
    private mutating func field(_ name: String, _ value: String) -> String {
        let name = pick([name, name.lowercased(), name.uppercased()])
        return name + ":" + pick(["", " ", "\t", "  "]) + value + pick(["", "", " ", "\t "]) + "\r\n"
    }

    /// Returns the encoded bytes of a body, and adds the fields that frame it.
    private mutating func body(isOld: Bool, _ meaning: inout Meaning, _ fields: inout [String]) -> [UInt8] {
        guard chance(60) else { return [] }
        meaning.body = chance(30) ? Array("GET /x HTTP/1.1\r\nHost: evil\r\n\r\n".utf8) : bytes(0...60)
        if chance(20) { fields.append(field("Expect", pick(["100-continue", "100-Continue"]))) }
        guard !isOld, chance(50) else {
            fields.append(field("Content-Length", pick(["", "0", "00"]) + String(meaning.body.count)))
            return meaning.body
        }
        fields.append(field("Transfer-Encoding", pick(["chunked", "Chunked"])))
        return chunked(meaning.body)
    }

    private mutating func chunked(_ body: [UInt8]) -> [UInt8] {
        var sent: [UInt8] = []
        for piece in pieces(of: body, upTo: 30) {
            sent += Array((chunkSize(piece.count) + "\r\n").utf8) + piece + Array("\r\n".utf8)
        }
        let trailers = chance(20) ? otherFields().joined() : ""
        return sent + Array((chunkSize(0) + "\r\n" + trailers + "\r\n").utf8)
    }

    private mutating func chunkSize(_ count: Int) -> String {
        let digits = pick(["", "0", "000"]) + String(count, radix: 16, uppercase: chance(50))
        return digits + pick(["", "", ";a", ";a=b", ";a=\"b c\""])
    }

    private mutating func bytes(_ counts: ClosedRange<Int>) -> [UInt8] {
        (0..<Int.random(in: counts, using: &random)).map { _ in UInt8.random(in: .min ... .max, using: &random) }
    }

    // MARK: Faults and cuts

    /// Returns `stream` with one to three random faults.
    mutating func mutated(_ stream: [UInt8]) -> [UInt8] {
        let insertions = [
            "\r", "\n", "\r\n", "\0", " ", "\t", ":", ";", "+", "-", "0", "f", "\r\n ", "\r\n\r\n", "Host: b\r\n",
            "Content-Length: 3\r\n", "\r\nContent-Length: 3", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n",
        ]
        var stream = stream
        for _ in 0..<Int.random(in: 1...3, using: &random) where !stream.isEmpty {
            let place = Int.random(in: 0..<stream.count, using: &random)
            switch Int.random(in: 0..<5, using: &random) {
            case 0: stream[place] = pick(Array("\r\n\0 \t:;+-0f/A".utf8))
            case 1: stream.remove(at: place)
            case 2: stream.insert(contentsOf: pick(insertions).utf8, at: place)
            case 3: stream.removeSubrange(place..<min(stream.count, place + Int.random(in: 2...40, using: &random)))
            default:
                let end = min(stream.count, place + Int.random(in: 2...40, using: &random))
                stream.insert(contentsOf: stream[place..<end], at: Int.random(in: 0...stream.count, using: &random))
            }
        }
        return stream
    }

    /// Cuts `stream` into pieces of 1 to `length` bytes.
    mutating func pieces(of stream: [UInt8], upTo length: Int) -> [ArraySlice<UInt8>] {
        var pieces: [ArraySlice<UInt8>] = []
        var rest = stream[...]
        while !rest.isEmpty {
            pieces.append(rest.prefix(Int.random(in: 1...length, using: &random)))
            rest = rest.dropFirst(pieces[pieces.count - 1].count)
        }
        return pieces
    }
}
