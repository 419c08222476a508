extension JSONValue {
    /// The longest text that is read, in bytes, unless the caller says otherwise.
    ///
    /// A value takes up to some 25 times the room of its text (`[[0],[0],…`); whoever takes texts from the network bounds
    /// them far below this.
    package static let maximumBytes = 16 * 1024 * 1024

    /// The deepest nesting that any caller may allow: reading, writing, comparing and freeing a value recur once a level.
    package static let greatestDepth = 512

    /// Reads one JSON text (RFC 8259), strictly.
    ///
    /// Refused beyond what the grammar refuses: a name twice in one object, a lone surrogate, bytes that are not UTF-8, a byte
    /// order mark.
    ///
    /// - Parameters:
    ///   - bytes: The whole text. White space around the value is allowed, anything else is not.
    ///   - maximumDepth: How many arrays and objects may be open at once, 0 to ``greatestDepth``.
    ///   - maximumBytes: The longest text that is read.
    /// - Throws: ``JSONError`` with the first byte that is wrong.
    package init(
        parsing bytes: UnsafeRawBufferPointer,
        maximumDepth: Int = 64,
        maximumBytes: Int = JSONValue.maximumBytes
    ) throws(JSONError) {
        guard bytes.count <= maximumBytes else {
            throw JSONError(offset: max(0, maximumBytes), message: "longer than \(maximumBytes) bytes")
        }
        var parser = JSONParser(bytes, maximumDepth: min(maximumDepth, Self.greatestDepth))
        self = try parser.document()
    }

    /// Reads one JSON text: see ``init(parsing:maximumDepth:maximumBytes:)-(UnsafeRawBufferPointer,_,_)``.
    package init(
        parsing bytes: RawSpan,
        maximumDepth: Int = 64,
        maximumBytes: Int = JSONValue.maximumBytes
    ) throws(JSONError) {
        self = try bytes.withUnsafeBytes { bytes throws(JSONError) in
            try JSONValue(parsing: bytes, maximumDepth: maximumDepth, maximumBytes: maximumBytes)
        }
    }

    /// Reads one JSON text: see ``init(parsing:maximumDepth:maximumBytes:)-(UnsafeRawBufferPointer,_,_)``.
    package init(
        parsing bytes: Span<UInt8>,
        maximumDepth: Int = 64,
        maximumBytes: Int = JSONValue.maximumBytes
    ) throws(JSONError) {
        try self.init(parsing: bytes.bytes, maximumDepth: maximumDepth, maximumBytes: maximumBytes)
    }

    /// Reads one JSON text: see ``init(parsing:maximumDepth:maximumBytes:)-(UnsafeRawBufferPointer,_,_)``.
    package init(
        parsing bytes: [UInt8],
        maximumDepth: Int = 64,
        maximumBytes: Int = JSONValue.maximumBytes
    ) throws(JSONError) {
        try self.init(parsing: bytes.span, maximumDepth: maximumDepth, maximumBytes: maximumBytes)
    }

    /// Reads one JSON text: see ``init(parsing:maximumDepth:maximumBytes:)-(UnsafeRawBufferPointer,_,_)``.
    package init(
        parsing text: String,
        maximumDepth: Int = 64,
        maximumBytes: Int = JSONValue.maximumBytes
    ) throws(JSONError) {
        try self.init(parsing: text.utf8.span, maximumDepth: maximumDepth, maximumBytes: maximumBytes)
    }
}
