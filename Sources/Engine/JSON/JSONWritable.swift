/// A value that a ``JSONWriter`` can write.
///
/// A type conforms by writing one value: `writer.object { $0.member("id", id) }`.
package protocol JSONWritable {
    /// Writes exactly one value.
    func write(to writer: inout JSONWriter)
}

extension String: JSONWritable {
    package func write(to writer: inout JSONWriter) { writer.string(self) }
}

extension Bool: JSONWritable {
    package func write(to writer: inout JSONWriter) { writer.append(verbatim: self ? "true" : "false") }
}

extension Int: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.integer(isNegative: self < 0, magnitude: UInt64(magnitude))
    }
}

extension Int64: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.integer(isNegative: self < 0, magnitude: UInt64(magnitude))
    }
}

extension Int32: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.integer(isNegative: self < 0, magnitude: UInt64(magnitude))
    }
}

extension UInt64: JSONWritable {
    package func write(to writer: inout JSONWriter) { writer.integer(isNegative: false, magnitude: self) }
}

extension Double: JSONWritable {
    /// Writes the shortest text that parses back to this number, or `null` for infinity and NaN, which JSON cannot
    /// represent.
    package func write(to writer: inout JSONWriter) {
        writer.append(verbatim: isFinite ? description : "null")
    }
}

extension Optional: JSONWritable where Wrapped: JSONWritable {
    /// Writes the value, or `null` if there is none.
    package func write(to writer: inout JSONWriter) {
        if let self {
            self.write(to: &writer)
        } else {
            writer.append(verbatim: "null")
        }
    }
}

extension Array: JSONWritable where Element: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.array { array in
            for element in self { array.element(element) }
        }
    }
}

extension JSONNumber: JSONWritable {
    package func write(to writer: inout JSONWriter) { writer.append(verbatim: text) }
}

extension JSONObject: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            for (name, value) in members { object.member(name, value) }
        }
    }
}

extension JSONValue: JSONWritable {
    /// Writes the compact text.
    package func write(to writer: inout JSONWriter) {
        switch self {
        case .null: writer.append(verbatim: "null")
        case .bool(let value): value.write(to: &writer)
        case .number(let value): value.write(to: &writer)
        case .string(let value): value.write(to: &writer)
        case .array(let value): value.write(to: &writer)
        case .object(let value): value.write(to: &writer)
        }
    }
}

/// A JSON text from the database or another writer, which is written unchanged.
package struct JSONFragment: JSONWritable, Sendable {
    private let bytes: [UInt8]

    /// Creates a fragment. The caller ensures that `bytes` are one JSON value.
    package init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// Creates a fragment. The caller ensures that `text` is one JSON value.
    package init(_ text: String) {
        bytes = Array(text.utf8)
    }

    package func write(to writer: inout JSONWriter) { writer.append(verbatim: bytes) }
}
