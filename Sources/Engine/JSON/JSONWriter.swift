/// A writer of JSON into bytes, for frequent responses, without building a ``JSONValue`` first.
///
/// ```swift
/// var writer = JSONWriter()
/// writer.object { push in
///     push.member("id", id)
///     push.array("batches") { batches in
///         for batch in page { batches.element(batch) }
///     }
/// }
/// ```
///
/// The writer adds commas, colons and escapes. A member can only be written into an object, and an element only into an
/// array.
package struct JSONWriter: Sendable {
    /// The bytes written so far.
    package private(set) var bytes: [UInt8]

    /// Creates a writer with a new buffer that has room for `capacity` bytes before it grows.
    package init(reservingCapacity capacity: Int = 256) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    /// Creates a writer that appends to `bytes`, so that one buffer can be reused for many texts.
    package init(appendingTo bytes: consuming [UInt8]) {
        self.bytes = bytes
    }

    /// Removes the bytes written so far and keeps the buffer's capacity.
    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
    }

    // MARK: Values

    /// Writes one value.
    package mutating func value(_ value: some JSONWritable) {
        value.write(to: &self)
    }

    /// Writes an object whose members `body` writes.
    package mutating func object<Failure: Error>(_ body: (inout Members) throws(Failure) -> Void) throws(Failure) {
        var members = Members(writer: lend())
        defer { takeBack(&members.writer) }
        members.writer.append(UInt8(ascii: "{"))
        try body(&members)
        members.writer.append(UInt8(ascii: "}"))
    }

    /// Writes an array whose elements `body` writes.
    package mutating func array<Failure: Error>(_ body: (inout Elements) throws(Failure) -> Void) throws(Failure) {
        var elements = Elements(writer: lend())
        defer { takeBack(&elements.writer) }
        elements.writer.append(UInt8(ascii: "["))
        try body(&elements)
        elements.writer.append(UInt8(ascii: "]"))
    }

    /// Writes a line feed, for NDJSON streams.
    package mutating func newline() {
        append(UInt8(ascii: "\n"))
    }

    /// The members of an object that is being written.
    package struct Members {
        fileprivate var writer: JSONWriter
        private var isFirst = true

        fileprivate init(writer: JSONWriter) {
            self.writer = writer
        }

        /// Writes a member.
        ///
        /// - Parameter name: The name. Duplicates are not checked, and our own parser rejects them.
        package mutating func member(_ name: String, _ value: some JSONWritable) {
            writeName(name)
            value.write(to: &writer)
        }

        /// Writes a member whose value `body` writes, exactly one.
        package mutating func member(_ name: String, writtenBy body: (inout JSONWriter) -> Void) {
            writeName(name)
            body(&writer)
        }

        /// Writes a member that is an object.
        package mutating func object<Failure: Error>(
            _ name: String,
            _ body: (inout Members) throws(Failure) -> Void
        ) throws(Failure) {
            writeName(name)
            try writer.object(body)
        }

        /// Writes a member that is an array.
        package mutating func array<Failure: Error>(
            _ name: String,
            _ body: (inout Elements) throws(Failure) -> Void
        ) throws(Failure) {
            writeName(name)
            try writer.array(body)
        }

        private mutating func writeName(_ name: String) {
            if !isFirst { writer.append(UInt8(ascii: ",")) }
            isFirst = false
            writer.string(name)
            writer.append(UInt8(ascii: ":"))
        }
    }

    /// The elements of an array that is being written.
    package struct Elements {
        fileprivate var writer: JSONWriter
        private var isFirst = true

        fileprivate init(writer: JSONWriter) {
            self.writer = writer
        }

        /// Writes an element.
        package mutating func element(_ value: some JSONWritable) {
            writeSeparator()
            value.write(to: &writer)
        }

        /// Writes an element that `body` writes, exactly one value.
        package mutating func element(writtenBy body: (inout JSONWriter) -> Void) {
            writeSeparator()
            body(&writer)
        }

        /// Writes an element that is an object.
        package mutating func object<Failure: Error>(
            _ body: (inout Members) throws(Failure) -> Void
        ) throws(Failure) {
            writeSeparator()
            try writer.object(body)
        }

        /// Writes an element that is an array.
        package mutating func array<Failure: Error>(
            _ body: (inout Elements) throws(Failure) -> Void
        ) throws(Failure) {
            writeSeparator()
            try writer.array(body)
        }

        private mutating func writeSeparator() {
            if !isFirst { writer.append(UInt8(ascii: ",")) }
            isFirst = false
        }
    }

    // The buffer moves into the inner writer and back. It has one owner at any time and is never copied.

    private mutating func lend() -> JSONWriter {
        var inner = JSONWriter(appendingTo: [])
        swap(&inner.bytes, &bytes)
        return inner
    }

    private mutating func takeBack(_ inner: inout JSONWriter) {
        swap(&inner.bytes, &bytes)
    }

    // MARK: Tokens

    mutating func append(_ byte: UInt8) {
        bytes.append(byte)
    }

    /// Writes text that needs no escaping.
    mutating func append(verbatim text: String) {
        bytes.append(contentsOf: text.utf8)
    }

    mutating func append(verbatim text: [UInt8]) {
        bytes.append(contentsOf: text)
    }

    mutating func string(_ text: String) {
        var text = text
        text.withUTF8 { string($0) }
    }

    private mutating func string(_ text: UnsafeBufferPointer<UInt8>) {
        bytes.append(UInt8(ascii: "\""))
        var run = 0
        for index in 0..<text.count {
            let byte = text[index]
            guard byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") else { continue }
            bytes.append(contentsOf: text[run..<index])
            run = index + 1
            escape(byte)
        }
        bytes.append(contentsOf: text[run...])
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func escape(_ byte: UInt8) {
        bytes.append(UInt8(ascii: "\\"))
        switch byte {
        case 0x08: bytes.append(UInt8(ascii: "b"))
        case 0x09: bytes.append(UInt8(ascii: "t"))
        case 0x0A: bytes.append(UInt8(ascii: "n"))
        case 0x0C: bytes.append(UInt8(ascii: "f"))
        case 0x0D: bytes.append(UInt8(ascii: "r"))
        case 0..<0x20:
            let low = byte & 0xF
            append(verbatim: byte < 0x10 ? "u000" : "u001")
            bytes.append(low < 10 ? UInt8(ascii: "0") + low : UInt8(ascii: "a") + low - 10)
        default: bytes.append(byte)
        }
    }

    /// Writes an integer digit by digit. An intermediate string would cost more than the digits.
    mutating func integer(isNegative: Bool, magnitude: UInt64) {
        var digits = InlineArray<20, UInt8>(repeating: UInt8(ascii: "0"))
        var first = digits.count
        var rest = magnitude
        repeat {
            first -= 1
            digits[first] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
        } while rest > 0
        if isNegative { bytes.append(UInt8(ascii: "-")) }
        for index in first..<digits.count { bytes.append(digits[index]) }
    }
}
