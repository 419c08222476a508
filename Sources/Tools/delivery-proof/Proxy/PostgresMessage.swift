/// A complete message of PostgreSQL's protocol 3.0 (PostgreSQL manual, "Message Formats").
struct PostgresMessage {
    /// The first byte; 0 for the messages that open a connection, which have no type.
    let type: UInt8
    /// The message on the wire, including type and length.
    let bytes: ArraySlice<UInt8>

    /// The bytes after the length.
    var body: ArraySlice<UInt8> { bytes.dropFirst(type == 0 ? 4 : 5) }

    /// Returns the zero-terminated strings at the start of the body, at most `count`.
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

/// A parser that splits one direction of a connection into messages.
struct MessageSplitter {
    /// The maximum length of a message. A peer that announces a longer one speaks another protocol.
    private static let maximumBytes = 256 << 20

    struct NotPostgres: Error {}

    private var buffer: [UInt8] = []
    private var start = 0

    /// The bytes of an incomplete message.
    var rest: ArraySlice<UInt8> { buffer[start...] }

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        if start > 0 {
            buffer.removeFirst(start)
            start = 0
        }
        buffer.append(contentsOf: bytes)
    }

    /// Consumes and returns the next message, or `nil` if more bytes are needed.
    ///
    /// - Parameter hasType: Whether the message begins with a type. All do, except those that open a connection.
    /// - Throws: ``NotPostgres`` for an invalid length.
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
