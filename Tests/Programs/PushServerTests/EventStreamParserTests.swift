import Testing

@testable import push_server

/// Server-sent events, as `pushes watch` reads them.
@Suite struct EventStreamParserTests {
    private func items(_ text: String, in size: Int) -> [EventStreamParser.Item]? {
        var parser = EventStreamParser()
        var items: [EventStreamParser.Item] = []
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            guard let new = parser.receive(Array(rest.prefix(size))) else { return nil }
            items += new
            rest = rest.dropFirst(size)
        }
        return items
    }

    @Test("Events and comments do not depend on how their bytes are split", arguments: 1...40)
    func pieces(size: Int) {
        let text =
            "event: push\ndata: {\"a\":1}\n\n:\n\r\ndata:one\r\ndata: two\r\nid: 7\r\n\r\n\n: alive\n\ndata: not ended"
        let expected: [EventStreamParser.Item] = [
            .data(Array("{\"a\":1}".utf8)), .comment, .data(Array("one\ntwo".utf8)), .comment,
        ]
        #expect(items(text, in: size) == expected)
    }

    @Test("A line or an event without an end is refused", arguments: ["", "data: "])
    func endless(start: String) {
        var parser = EventStreamParser()
        let piece = Array(start.utf8) + [UInt8](repeating: 65, count: 1 << 20) + Array((start.isEmpty ? "" : "\n").utf8)
        var count = 0
        while parser.receive(piece) != nil, count < 100 { count += 1 }
        #expect((1..<100).contains(count))
    }
}
