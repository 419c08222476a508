package import JSON

/// A value is not of its kind.
package struct InvalidValue: Error {
    /// The reason in a sentence without its full stop, such as the place of a syntax error.
    package var detail: String?

    package init(_ detail: String? = nil) {
        self.detail = detail
    }
}

/// A kind of value: how it is read from a request, how it is written into a response, and how a document describes it.
///
/// A form's values are texts. Where Kakao's API has an array or object in a form, the text is JSON.
package struct Kind<Value: Sendable>: Sendable {
    /// The schema of a value in a request.
    package let input: Schema
    /// The schema of a value in a response.
    package let output: Schema
    /// The allowed values, in words that follow "must be".
    package let allowed: String
    /// Reads a value. Throws ``InvalidValue`` if it is not of this kind.
    package let read: @Sendable (JSONValue) throws(InvalidValue) -> Value
    /// Writes a value into a response.
    package let write: @Sendable (Value, inout JSONWriter) -> Void
    /// Returns the text of a value in a form or a query: JSON, but for a string without its quotes.
    package let text: @Sendable (Value) -> String
    /// Whether a value is a list that a form or a query separates by commas. Some clients repeat the name for each
    /// element instead.
    package let isCommaList: Bool

    package init(
        _ schema: Schema,
        output: Schema? = nil,
        allowed: String,
        read: @escaping @Sendable (JSONValue) throws(InvalidValue) -> Value,
        write: @escaping @Sendable (Value, inout JSONWriter) -> Void,
        text: (@Sendable (Value) -> String)? = nil,
        isCommaList: Bool = false
    ) {
        input = schema
        self.output = output ?? schema
        self.allowed = allowed
        self.read = read
        self.write = write
        self.isCommaList = isCommaList
        self.text =
            text ?? { value in
                var json = JSONWriter()
                write(value, &json)
                return String(decoding: json.bytes, as: UTF8.self)
            }
    }

    /// Creates a kind of values that are texts in requests and in responses.
    ///
    /// - Parameters:
    ///   - parse: Returns the value of a text, or `nil` if the text is invalid.
    ///   - format: Returns the text of a value.
    package init(
        text schema: Schema,
        allowed: String,
        parse: @escaping @Sendable (String) -> Value?,
        format: @escaping @Sendable (Value) -> String
    ) {
        self.init(
            schema,
            allowed: allowed,
            read: { value throws(InvalidValue) in
                guard let value = value.string.flatMap(parse) else { throw InvalidValue() }
                return value
            },
            write: { $1.value(format($0)) },
            text: format
        )
    }

    /// Creates a kind of values that only requests contain.
    package static func input(
        _ schema: Schema,
        allowed: String,
        read: @escaping @Sendable (JSONValue) throws(InvalidValue) -> Value
    ) -> Kind {
        Kind(schema, allowed: allowed, read: read) { _, _ in preconditionFailure("no response contains this value") }
    }

    /// Creates a kind of values that only responses contain.
    package static func output(
        _ schema: Schema,
        write: @escaping @Sendable (Value, inout JSONWriter) -> Void
    ) -> Kind {
        Kind(schema, allowed: "absent", read: { _ throws(InvalidValue) in throw InvalidValue() }, write: write)
    }

    /// This kind with a limit of size, which is checked before a value is read.
    ///
    /// - Parameter bytes: The maximum length in UTF-8 of a text, or of another value as JSON text.
    package func limited(toBytes bytes: Int) -> Kind {
        Kind(
            input,
            output: output,
            allowed: "\(allowed), of at most \(bytes) bytes",
            read: { value throws(InvalidValue) in
                guard value.anyText.utf8.count <= bytes else { throw InvalidValue() }
                return try read(value)
            },
            write: write,
            text: text,
            isCommaList: isCommaList
        )
    }

    /// This kind with a name for its schema in the OpenAPI document, for values that several operations have.
    package func named(_ name: String) -> Kind {
        Kind(input.named(name), output: output.named(name), allowed: allowed, read: read, write: write, text: text)
    }

    /// This kind or `null`.
    package var nullable: Kind<Value?> {
        Kind<Value?>(
            input.nullable,
            output: output.nullable,
            allowed: allowed,
            read: { value throws(InvalidValue) in try read(value) },
            write: { value, json in
                if let value { write(value, &json) } else { json.value(JSONValue.null) }
            }
        )
    }

    /// Arrays of this kind. In a form or a query, an array is JSON text.
    package var array: Kind<[Value]> { array(count: nil) }

    /// Returns the kind of arrays of this kind, perhaps with a limited number of elements.
    package func array(count: ClosedRange<Int>?) -> Kind<[Value]> {
        let number = count.map { " of \($0.lowerBound) to \($0.upperBound) elements" } ?? ""
        return Kind<[Value]>(
            .array(of: input, count: count),
            output: .array(of: output),
            allowed: "an array\(number), each element \(allowed)",
            read: { value throws(InvalidValue) in
                guard let elements = try value.structured().array, count?.contains(elements.count) != false else {
                    throw InvalidValue()
                }
                var values: [Value] = []
                values.reserveCapacity(elements.count)
                for element in elements { values.append(try read(element)) }
                return values
            },
            write: { values, json in
                json.array { json in
                    for value in values { json.element { write(value, &$0) } }
                }
            }
        )
    }
}
