package import JSON

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
            write: { $1.value(String($0)) },
            text: { String($0) }
        )
    }

    /// An integer within a range: a number, or its decimal text.
    package static func integer(_ range: ClosedRange<Int64>) -> Kind {
        Kind(
            .integer(range),
            allowed: "an integer from \(range.lowerBound) to \(range.upperBound)",
            read: { value throws(InvalidValue) in
                guard let number = value.decimal, range.contains(number) else { throw InvalidValue() }
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
    package static var seconds: Kind { number }

    /// A share of a whole, in a response: 1 for all of it.
    package static var share: Kind { number }

    private static var number: Kind { .output(.number) { $1.value($0) } }
}

extension Kind where Value == [Int64] {
    /// Ids of users: an array, or the text of a JSON array.
    package static func userIDs(count: ClosedRange<Int>) -> Kind {
        let ids = Kind<Int64>.userID.array
        return Kind(
            .array(of: Kind<Int64>.userID.input, count: count),
            output: ids.output,
            allowed: "an array of \(count.lowerBound) to \(count.upperBound) integers from 1 to 9223372036854775807",
            read: { value throws(InvalidValue) in
                guard let ids = UserID.read(try value.structured(), count: count) else { throw InvalidValue() }
                return ids
            },
            write: ids.write
        )
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
                guard let text = value.string, Text.isValid(text, length) else { throw InvalidValue() }
                return text
            },
            write: { $1.value($0) },
            text: \.self
        )
    }

    /// Any text.
    package static var text: Kind { Kind(text: .text(), allowed: "a text", parse: \.self, format: \.self) }

    /// One of some texts.
    package static func text(oneOf values: [String]) -> Kind {
        Kind(
            text: .choice(values),
            allowed: "one of \(values.joined(separator: ", "))",
            parse: { $0.isShort && values.contains($0) ? $0 : nil },
            format: \.self
        )
    }

    /// A text of visible ASCII characters, as in a header field.
    package static func token(_ length: ClosedRange<Int>) -> Kind {
        .input(
            .text(length: length, pattern: "^[!-~]*$"),
            allowed: "\(length.lowerBound) to \(length.upperBound) visible ASCII characters"
        ) { value throws(InvalidValue) in
            guard let text = value.string, length.contains(text.utf8.count),
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

extension Kind where Value == [String] {
    /// Up to `count` texts of 1 to `length` characters, separated by commas, in one text.
    package static func commaList(count: Int, length: Int) -> Kind {
        let text = "[^,\\u0000-\\u001f\\u007f]{1,\(length)}"
        return Kind(
            .text(pattern: "^\(text)(,\(text)){0,\(count - 1)}$"),
            output: .array(of: .text()),
            allowed: "1 to \(count) texts of 1 to \(length) characters, separated by commas",
            read: { value throws(InvalidValue) in
                // Octets are compared, not characters: these would take long for a text that is far too long.
                let comma = UInt8(ascii: ",")
                let parts = value.string?.utf8.split(
                    separator: comma,
                    maxSplits: count,
                    omittingEmptySubsequences: false
                )
                let texts = (parts ?? []).map { String(Substring($0)) }
                guard (1...count).contains(texts.count), texts.allSatisfy({ Text.isValid($0, 1...length) }) else {
                    throw InvalidValue()
                }
                return texts
            },
            write: { $1.value($0) },
            text: { $0.joined(separator: ",") },
            isCommaList: true
        )
    }
}

extension JSONObject {
    /// Adds a value of a query or a form. Values of the same repeatable name are joined by commas.
    ///
    /// - Parameter isRepeatable: See ``Kind/isCommaList``.
    /// - Returns: False, with nothing changed, if there is already a value of that name which is not repeatable.
    package mutating func append(_ name: String, _ value: JSONValue, isRepeatable: @autoclosure () -> Bool) -> Bool {
        if append(name, value) { return true }
        guard isRepeatable(), let first = self[name]?.string, let next = value.string else { return false }
        self[name] = .string("\(first),\(next)")
        return true
    }
}

extension Kind where Value == [String: String] {
    /// Up to `count` texts by their names, in a JSON object or in the text of one.
    ///
    /// - Parameters:
    ///   - names: The number of characters of a name.
    ///   - values: What a value is.
    ///   - isValid: Returns whether a name of this length is allowed.
    ///   - rule: The rule for names, in words that follow "names of 1 to 64 characters".
    package static func textObject(
        count: Int,
        names: ClosedRange<Int>,
        values: Kind<String>,
        rule: String = "",
        isValid: @escaping @Sendable (String) -> Bool = { _ in true }
    ) -> Kind {
        let rule = rule.isEmpty ? "" : " \(rule)"
        let allowed = """
            an object of at most \(count) members with names of \(names.lowerBound) to \(names.upperBound) characters\(rule), \
            each value \(values.allowed)
            """
        return Kind(
            .map(of: values.input, count: count, names: names),
            allowed: allowed,
            read: { value throws(InvalidValue) in
                guard let object = try value.structured().object, object.count <= count else { throw InvalidValue() }
                var texts: [String: String] = [:]
                for (name, value) in object.members {
                    guard Text.isValid(name, names), isValid(name), texts[name] == nil,
                        let text = try? values.read(value)
                    else { throw InvalidValue("Invalid member: \(name.prefix(64))") }
                    texts[name] = text
                }
                return texts
            },
            write: { texts, json in
                json.object { json in
                    for (name, text) in texts.sorted(by: { $0.key < $1.key }) { json.member(name, text) }
                }
            }
        )
    }
}

extension Kind where Value == JSONObject {
    /// A JSON object, or its text.
    package static var object: Kind {
        Kind(
            .object,
            allowed: "a JSON object",
            read: { value throws(InvalidValue) in
                guard let object = try value.structured().object else { throw InvalidValue() }
                return object
            },
            write: { $1.value(JSONValue.object($0)) }
        )
    }

    /// A JSON object of texts, numbers and booleans, or its text.
    package static var scalars: Kind {
        Kind(
            .scalars,
            allowed: "a JSON object of texts, numbers and booleans",
            read: { value throws(InvalidValue) in
                let object = try Kind.object.read(value)
                for (name, value) in object.members {
                    switch value {
                    case .string, .number, .bool: break
                    case .null, .array, .object: throw InvalidValue("Invalid member: \(name.prefix(64))")
                    }
                }
                return object
            },
            write: Kind.object.write
        )
    }
}

extension Kind where Value == JSONFragment {
    /// A JSON object as text, in a response.
    package static var objectText: Kind { .output(.object) { $1.value($0) } }
}

extension Kind where Value == Bool {
    /// `true` or `false`, also as a text, whatever its case: `True`, as clients in Python write it.
    package static var boolean: Kind {
        Kind(
            .boolean,
            allowed: "true or false",
            read: { value throws(InvalidValue) in
                switch value {
                case .bool(let flag): return flag
                case .string(let text) where text.isShort:
                    switch text.lowercased() {
                    case "true": return true
                    case "false": return false
                    default: throw InvalidValue()
                    }
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
            parse: { $0.isShort ? Value(rawValue: $0) : nil },
            format: \.rawValue
        )
    }
}

extension String {
    /// Whether the text may be one of a fixed set. Comparing two texts takes long if one is a character of 60,000 bytes.
    fileprivate var isShort: Bool { utf8.count <= 100 }
}

extension JSONValue {
    /// The value as an integer, or `nil`. Clients that know only forms send decimal texts in JSON too.
    var decimal: Int64? {
        switch self {
        case .string(let text): Int64(decimal: text)
        default: integer
        }
    }

    /// The value as text: a text unchanged, another value as JSON.
    package var anyText: String {
        switch self {
        case .string(let text): text
        default: description
        }
    }

    /// Returns the JSON value, parsed if it is given as text.
    ///
    /// - Throws: ``InvalidValue``, with the place of a syntax error if the text begins as an array or an object. Another text is no JSON
    ///   with a mistake, but a value of another kind.
    package func structured() throws(InvalidValue) -> JSONValue {
        switch self {
        case .string(let text):
            do {
                return try JSONValue(parsing: Array(text.utf8))
            } catch {
                let first = text.utf8.first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
                guard first == UInt8(ascii: "[") || first == UInt8(ascii: "{") else { throw InvalidValue() }
                throw InvalidValue("Invalid JSON: \(error.message) at byte \(error.offset)")
            }
        default: return self
        }
    }
}
