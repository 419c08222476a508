/// One message of PostgreSQL's protocol 3.0, whole (PostgreSQL manual, "Message Formats").
struct PostgresMessage {
    /// The first byte; 0 for the messages that a connection begins with, which have none.
    let type: UInt8
    /// The message as it travels, type and length included.
    let bytes: ArraySlice<UInt8>

    /// The bytes after the length.
    var body: ArraySlice<UInt8> { bytes.dropFirst(type == 0 ? 4 : 5) }

    /// The zero-terminated strings that the body begins with, at most `count`.
    func strings(_ count: Int) -> [String] {
        var rest = body
        var strings: [String] = []
        while strings.count < count, let end = rest.firstIndex(of: 0) {
            strings.append(String(decoding: rest[..<end], as: UTF8.self))
            rest = rest[(end + 1)...]
        }
        return strings
    }
}

/// Splits one direction of a connection into messages.
struct MessageSplitter {
    /// A peer that announces a longer message speaks another protocol.
    private static let maximumBytes = 256 << 20

    struct NotPostgres: Error {}

    private var buffer: [UInt8] = []
    private var start = 0

    /// Bytes of a message of which the end is still to come.
    var rest: ArraySlice<UInt8> { buffer[start...] }

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        if start > 0 {
            buffer.removeFirst(start)
            start = 0
        }
        buffer.append(contentsOf: bytes)
    }

    /// The next whole message, or `nil` when more bytes are needed.
    ///
    /// - Parameter hasType: Whether it begins with a type: all but those that open a connection do.
    /// - Throws: ``NotPostgres`` for an impossible length.
    mutating func next(hasType: Bool) throws(NotPostgres) -> PostgresMessage? {
        let header = hasType ? 5 : 4
        guard buffer.count - start >= header else { return nil }
        let length = buffer[(start + header - 4)..<(start + header)].reduce(0) { $0 << 8 | Int($1) }
        guard length >= 4, length <= Self.maximumBytes else { throw NotPostgres() }
        let end = start + header - 4 + length
        guard end <= buffer.count else { return nil }
        defer { start = end }
        return PostgresMessage(type: hasType ? buffer[start] : 0, bytes: buffer[start..<end])
    }
}
