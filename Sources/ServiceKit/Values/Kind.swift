package import JSON

/// A value of a request before its kind is known.
package enum ParameterValue: Sendable {
    /// A value of a form, a query, a path or a header field.
    case text(String)
    /// A value of a JSON body.
    case json(JSONValue)

    /// The text, or `nil` for JSON that is not a string.
    package var text: String? {
        switch self {
        case .text(let text), .json(.string(let text)): text
        case .json: nil
        }
    }
}

/// A value is not of its kind.
package struct InvalidValue: Error {
    /// Details that follow the description of allowed values, such as the place of a syntax error.
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
    package let read: @Sendable (ParameterValue) throws(InvalidValue) -> Value
    let write: @Sendable (Value, inout JSONWriter) -> Void

    package init(
        _ schema: Schema,
        output: Schema? = nil,
        allowed: String,
        read: @escaping @Sendable (ParameterValue) throws(InvalidValue) -> Value,
        write: @escaping @Sendable (Value, inout JSONWriter) -> Void
    ) {
        input = schema
        self.output = output ?? schema
        self.allowed = allowed
        self.read = read
        self.write = write
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
                guard let value = value.text.flatMap(parse) else { throw InvalidValue() }
                return value
            },
            write: { $1.value(format($0)) }
        )
    }

    /// Creates a kind of values that only requests contain.
    package static func input(
        _ schema: Schema,
        allowed: String,
        read: @escaping @Sendable (ParameterValue) throws(InvalidValue) -> Value
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

    /// This kind with a name for its schema in the OpenAPI document, for values that several operations have.
    package func named(_ name: String) -> Kind {
        Kind(input.named(name), output: output.named(name), allowed: allowed, read: read, write: write)
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

    /// Arrays of this kind, in responses.
    package var array: Kind<[Value]> {
        .output(.array(of: output)) { values, json in
            json.array { json in
                for value in values { json.element { write(value, &$0) } }
            }
        }
    }
}

extension Kind where Value == Int64 {
    /// The id of a user: an integer or its decimal text in a request, a text in a response.
    package static var userID: Kind {
        let text = Schema.text(pattern: "^[1-9][0-9]{0,18}$")
        return Kind(
            .oneOf([.integer(1...Int64.max), text]).named("UserID"),
            output: text,
            allowed: "an integer from 1 to 9223372036854775807",
            read: { value throws(InvalidValue) in
                guard let id = UserID.read(value) else { throw InvalidValue() }
                return id
            },
            write: { $1.value(String($0)) }
        )
    }

    /// An integer within a range: a number, or its decimal text.
    package static func integer(_ range: ClosedRange<Int64>) -> Kind {
        Kind(
            .integer(range),
            allowed: "an integer from \(range.lowerBound) to \(range.upperBound)",
            read: { value throws(InvalidValue) in
                guard let number = value.integer, range.contains(number) else { throw InvalidValue() }
                return number
            },
            write: { $1.value($0) }
        )
    }

    /// A number of users, devices or other things, in a response.
    package static var count: Kind { .integer(0...Int64.max) }
}

extension Kind where Value == Int32 {
    /// An integer within a range: a number, or its decimal text.
    package static func integer(_ range: ClosedRange<Int32>) -> Kind {
        let wide = Kind<Int64>.integer(Int64(range.lowerBound)...Int64(range.upperBound))
        return Kind(
            wide.input,
            allowed: wide.allowed,
            read: { value throws(InvalidValue) in Int32(truncatingIfNeeded: try wide.read(value)) },
            write: { $1.value($0) }
        )
    }

    /// Any number, in a response.
    package static var number: Kind { .integer(Int32.min...Int32.max) }
}

extension Kind where Value == Double {
    /// A number of seconds, in a response.
    package static var seconds: Kind { .output(.number) { $1.value($0) } }
}

extension Kind where Value == [Int64] {
    /// Ids of users: an array, or the text of a JSON array.
    package static func userIDs(count: ClosedRange<Int>) -> Kind {
        let id = Kind<Int64>.userID
        return .input(
            .array(of: id.input, count: count),
            allowed: "an array of \(count.lowerBound) to \(count.upperBound) integers from 1 to 9223372036854775807"
        ) { value throws(InvalidValue) in
            guard let ids = UserID.read(try value.structured(), count: count) else { throw InvalidValue() }
            return ids
        }
    }
}

/// The reading of user ids, which every request of an app has.
package enum UserID {
    /// Returns an id, or `nil` for a value that is none.
    package static func read(_ value: ParameterValue) -> Int64? {
        guard let id = value.integer, id > 0 else { return nil }
        return id
    }

    /// Returns the ids in an array, or `nil` if one is invalid or if there are too few or too many.
    package static func read(_ value: JSONValue, count: ClosedRange<Int>) -> [Int64]? {
        guard let elements = value.array, count.contains(elements.count) else { return nil }
        var ids: [Int64] = []
        ids.reserveCapacity(elements.count)
        for element in elements {
            guard let id = read(.json(element)) else { return nil }
            ids.append(id)
        }
        return ids
    }
}

extension Kind where Value == String {
    /// A text of `length` characters without control characters.
    package static func text(_ length: ClosedRange<Int>) -> Kind {
        Kind(
            .text(length: length, pattern: Text.pattern),
            output: .text(),
            allowed: Text.allowed(length),
            read: { value throws(InvalidValue) in
                guard let text = value.text, Text.isValid(text, length) else { throw InvalidValue() }
                return text
            },
            write: { $1.value($0) }
        )
    }

    /// A text of any length, in a response.
    package static var text: Kind { .output(.text()) { $1.value($0) } }

    /// One of some texts, in a response.
    package static func text(oneOf values: [String]) -> Kind { .output(.choice(values)) { $1.value($0) } }

    /// A text of visible ASCII characters, as in a header field.
    package static func token(_ length: ClosedRange<Int>) -> Kind {
        .input(
            .text(length: length, pattern: "^[!-~]*$"),
            allowed: "\(length.lowerBound) to \(length.upperBound) visible ASCII characters"
        ) { value throws(InvalidValue) in
            guard let text = value.text, length.contains(text.utf8.count),
                text.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
            else { throw InvalidValue() }
            return text
        }
    }

    /// Any value: a text unchanged, another value as JSON text.
    ///
    /// - Parameters:
    ///   - schema: What it should be.
    ///   - allowed: The same in words that follow "must be".
    package static func anyText(_ schema: Schema, _ allowed: String) -> Kind {
        .input(schema, allowed: allowed) { value throws(InvalidValue) in value.anyText }
    }
}

extension Kind where Value == [String] {
    /// Texts in an array, or in the text of a JSON array.
    package static func texts(count: ClosedRange<Int>, length: ClosedRange<Int>) -> Kind {
        let number = count.lowerBound == 0 ? "at most" : "\(count.lowerBound) to"
        return Kind(
            .array(of: .text(length: length, pattern: Text.pattern), count: count),
            output: .array(of: .text()),
            allowed:
                "an array of \(number) \(count.upperBound) texts of \(length.lowerBound) to \(length.upperBound) characters",
            read: { value throws(InvalidValue) in
                guard let texts = Text.all(in: try value.structured(), count: count, length: length) else {
                    throw InvalidValue()
                }
                return texts
            },
            write: { $1.value($0) }
        )
    }
}

extension Kind where Value == JSONObject {
    /// A JSON object, or its text.
    package static var object: Kind {
        .input(.object, allowed: "a JSON object") { value throws(InvalidValue) in
            guard let object = try value.structured().object else { throw InvalidValue() }
            return object
        }
    }
}

extension Kind where Value == JSONFragment {
    /// A JSON object as text, in a response.
    package static var objectText: Kind { .output(.object) { $1.value($0) } }
}

extension Kind where Value == Bool {
    /// `true` or `false`, also as a text.
    package static var boolean: Kind {
        Kind(
            .boolean,
            allowed: "true or false",
            read: { value throws(InvalidValue) in
                switch value {
                case .text("true"), .json(.string("true")), .json(.bool(true)): return true
                case .text("false"), .json(.string("false")), .json(.bool(false)): return false
                default: throw InvalidValue()
                }
            },
            write: { $1.value($0) }
        )
    }
}

extension Kind where Value: RawRepresentable<String> & CaseIterable {
    /// One of the cases of an enumeration.
    package static var choice: Kind {
        let names = Value.allCases.map(\.rawValue)
        return Kind(
            text: .choice(names),
            allowed: "one of \(names.joined(separator: ", "))",
            parse: { Value(rawValue: $0) },
            format: \.rawValue
        )
    }
}

extension ParameterValue {
    /// The value as an integer, or `nil`. Clients that know only forms send decimal texts in JSON too.
    fileprivate var integer: Int64? {
        switch self {
        case .text(let text), .json(.string(let text)): Int64(decimal: text)
        case .json(let value): value.integer
        }
    }

    /// The value as text: a text unchanged, another value as JSON.
    package var anyText: String {
        switch self {
        case .text(let text), .json(.string(let text)): text
        case .json(let value): String(decoding: value.bytes(), as: UTF8.self)
        }
    }

    /// Returns the JSON value, parsed if it is given as text.
    package func structured() throws(InvalidValue) -> JSONValue {
        switch self {
        case .json(.string(let text)), .text(let text):
            do {
                return try JSONValue(parsing: Array(text.utf8))
            } catch {
                throw InvalidValue("Invalid JSON: \(error.message) at byte \(error.offset)")
            }
        case .json(let value): return value
        }
    }
}
