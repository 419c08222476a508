/// A JSON text as a value: RFC 8259, read strictly and written compactly.
///
/// Reading and writing again gives a compact text back byte for byte, save for how its strings were escaped: members keep their
/// order and numbers their text (`docs/decisions/0003-our-own-json.md`).
package enum JSONValue: Sendable {
    case null
    case bool(Bool)
    case number(JSONNumber)
    case string(String)
    case array([JSONValue])
    case object(JSONObject)
}

extension JSONValue {
    /// An integer.
    package static func integer(_ value: some FixedWidthInteger) -> JSONValue {
        .number(JSONNumber(value))
    }

    package var isNull: Bool {
        guard case .null = self else { return false }
        return true
    }

    /// The value, if it is `true` or `false`.
    package var bool: Bool? {
        guard case .bool(let value) = self else { return nil }
        return value
    }

    /// The value, if it is a number.
    package var number: JSONNumber? {
        guard case .number(let value) = self else { return nil }
        return value
    }

    /// The value, if it is a number that is written as an integer and fits: see ``JSONNumber/int64``.
    package var integer: Int64? {
        number?.int64
    }

    /// The value, if it is a string.
    package var string: String? {
        guard case .string(let value) = self else { return nil }
        return value
    }

    /// The elements, if it is an array.
    package var array: [JSONValue]? {
        guard case .array(let value) = self else { return nil }
        return value
    }

    /// The members, if it is an object.
    package var object: JSONObject? {
        guard case .object(let value) = self else { return nil }
        return value
    }

    /// The value of a member, or `nil` if this is no object or has none of that name.
    package subscript(name: String) -> JSONValue? {
        object?[name]
    }

    /// An element, or `nil` if this is no array or ends before it.
    package subscript(index: Int) -> JSONValue? {
        guard let array, array.indices.contains(index) else { return nil }
        return array[index]
    }

    /// The compact text in UTF-8.
    package func bytes() -> [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }
}

extension JSONValue: Equatable {
    /// Whether both are written alike: strings byte by byte, numbers by their text, members in order.
    package static func == (left: JSONValue, right: JSONValue) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let left), .bool(let right)): left == right
        case (.number(let left), .number(let right)): left == right
        case (.string(let left), .string(let right)): Name(text: left) == Name(text: right)
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)): left == right
        case (.null, _), (.bool, _), (.number, _), (.string, _), (.array, _), (.object, _): false
        }
    }
}

extension JSONValue: CustomStringConvertible {
    package var description: String {
        String(decoding: bytes(), as: UTF8.self)
    }
}
