import Testing

@testable import delivery_proof

/// The proxy's splitting of the byte stream into messages.
@Suite struct MessageSplitterTests {
    /// A start-up message, then Parse, Bind, Execute and Sync.
    private static let startup: [UInt8] = [0, 0, 0, 9, 0, 3, 0, 0, 0]
    private static let parse = message("P", Array("one\0SELECT  1\0".utf8) + [0, 0])
    private static let bind = message("B", Array("\0one\0".utf8) + [0, 0, 0, 0, 0, 0])
    private static let sync = message("S", [])

    private static func message(_ type: Character, _ body: [UInt8]) -> [UInt8] {
        [type.asciiValue ?? 0, 0, 0, 0, UInt8(body.count + 4)] + body
    }

    /// Returns the type and the bytes of each message that a splitter finds in pieces.
    private static func split(_ pieces: [ArraySlice<UInt8>]) throws -> [(type: UInt8, bytes: [UInt8])] {
        var splitter = MessageSplitter()
        var messages: [(UInt8, [UInt8])] = []
        for piece in pieces {
            piece.withUnsafeBytes { splitter.append($0) }
            while let message = try splitter.next(hasType: !messages.isEmpty) {
                messages.append((message.type, Array(message.bytes)))
            }
        }
        return messages
    }

    @Test("Messages are found complete, wherever the stream is split")
    func everyOffset() throws {
        let stream = Self.startup + Self.parse + Self.bind + Self.sync
        for cut in 0...stream.count {
            let messages = try Self.split([stream[..<cut], stream[cut...]])
            #expect(messages.map(\.bytes) == [Self.startup, Self.parse, Self.bind, Self.sync])
            #expect(messages.map(\.type) == [0, UInt8(ascii: "P"), UInt8(ascii: "B"), UInt8(ascii: "S")])
        }
    }

    @Test("The strings of a Parse message are its name and its statement")
    func strings() throws {
        var splitter = MessageSplitter()
        Self.parse.withUnsafeBytes { splitter.append($0) }
        let message = try #require(try splitter.next(hasType: true))
        #expect(message.strings(2) == ["one", "SELECT  1"])
    }

    @Test(
        "An invalid length is an error, not a trap",
        arguments: [[0, 0, 0, 3], [0x7F, 0xFF, 0xFF, 0xFF]]
    )
    func impossibleLength(_ length: [UInt8]) {
        var splitter = MessageSplitter()
        ([UInt8(ascii: "P")] + length).withUnsafeBytes { splitter.append($0) }
        #expect(throws: MessageSplitter.NotPostgres.self) { try splitter.next(hasType: true) }
    }
}
