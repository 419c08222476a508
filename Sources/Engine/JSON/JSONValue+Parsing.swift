extension JSONValue {
    /// The default limit of a text's length, in bytes.
    ///
    /// In memory, a value takes up to about 25 times the size of its text (`[[0],[0],…`). Callers limit texts from the
    /// network to much less than this.
    package static let maximumBytes = 16 * 1024 * 1024

    /// The deepest nesting that a caller can allow. Parsing, writing, comparing and freeing a value recurse once per
    /// level.
    package static let greatestDepth = 512

    /// Parses one JSON text (RFC 8259), strictly.
    ///
    /// Rejects more than the grammar does: duplicate names in one object, unpaired surrogates, bytes that are not
    /// UTF-8, and a byte order mark.
    ///
    /// - Parameters:
    ///   - bytes: The whole text. Only white space may surround the value.
    ///   - maximumDepth: The number of arrays and objects that may be open at once, from 0 to ``greatestDepth``.
    ///   - maximumBytes: The maximum length of the text in bytes.
    /// - Throws: ``JSONError`` with the offset of the first invalid byte.
    package init(
        parsing bytes: UnsafeRawBufferPointer,
        maximumDepth: Int = 64,
        maximumBytes: Int = JSONValue.maximumBytes
    ) throws(JSONError) {
        guard bytes.count <= maximumBytes else {
            throw JSONError(offset: max(0, maximumBytes), message: "text longer than \(maximumBytes) bytes")
        }
        var parser = JSONParser(bytes, maximumDepth: min(maximumDepth, Self.greatestDepth))
        self = try parser.document()
    }

    /// Parses one JSON text. See ``init(parsing:maximumDepth:maximumBytes:)-(UnsafeRawBufferPointer,_,_)``.
    package init(
        parsing bytes: Span<UInt8>,
        maximumDepth: Int = 64,
        maximumBytes: Int = JSONValue.maximumBytes
    ) throws(JSONError) {
        self = try bytes.withUnsafeBytes { bytes throws(JSONError) in
            try JSONValue(parsing: bytes, maximumDepth: maximumDepth, maximumBytes: maximumBytes)
        }
    }

    /// Parses one JSON text. See ``init(parsing:maximumDepth:maximumBytes:)-(UnsafeRawBufferPointer,_,_)``.
    package init(
        parsing bytes: [UInt8],
        maximumDepth: Int = 64,
        maximumBytes: Int = JSONValue.maximumBytes
    ) throws(JSONError) {
        try self.init(parsing: bytes.span, maximumDepth: maximumDepth, maximumBytes: maximumBytes)
    }

    /// Parses one JSON text. See ``init(parsing:maximumDepth:maximumBytes:)-(UnsafeRawBufferPointer,_,_)``.
    package init(
        parsing text: String,
        maximumDepth: Int = 64,
        maximumBytes: Int = JSONValue.maximumBytes
    ) throws(JSONError) {
        try self.init(parsing: text.utf8.span, maximumDepth: maximumDepth, maximumBytes: maximumBytes)
    }
}
