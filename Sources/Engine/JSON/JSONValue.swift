/// A JSON value (RFC 8259), parsed strictly and written compactly.
///
/// Parsing and writing a compact text returns it byte for byte, except for how strings are escaped. Members keep their
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
    /// Returns a number with an integer value.
    package static func integer(_ value: some FixedWidthInteger) -> JSONValue {
        .number(JSONNumber(value))
    }

    package var isNull: Bool {
        guard case .null = self else { return false }
        return true
    }

    /// The value of `true` or `false`, or `nil` for any other kind.
    package var bool: Bool? {
        guard case .bool(let value) = self else { return nil }
        return value
    }

    /// The number, or `nil` for any other kind.
    package var number: JSONNumber? {
        guard case .number(let value) = self else { return nil }
        return value
    }

    /// The value of a number that is written as an integer and fits, otherwise `nil`. See ``JSONNumber/int64``.
    package var integer: Int64? {
        number?.int64
    }

    /// The string, or `nil` for any other kind.
    package var string: String? {
        guard case .string(let value) = self else { return nil }
        return value
    }

    /// The elements of an array, or `nil` for any other kind.
    package var array: [JSONValue]? {
        guard case .array(let value) = self else { return nil }
        return value
    }

    /// The members of an object, or `nil` for any other kind.
    package var object: JSONObject? {
        guard case .object(let value) = self else { return nil }
        return value
    }

    /// The value of a member, or `nil` if this is not an object or has no member of that name.
    package subscript(name: String) -> JSONValue? {
        object?[name]
    }

    /// An element, or `nil` if this is not an array or the index is out of range.
    package subscript(index: Int) -> JSONValue? {
        guard let array, array.indices.contains(index) else { return nil }
        return array[index]
    }

    /// Returns the compact text in UTF-8.
    package func bytes() -> [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }

    /// Returns the text on several lines, indented by two spaces a level, for people and for comparisons by line.
    package func indented() -> String {
        var text = ""
        append(to: &text, indentation: "\n")
        return text + "\n"
    }

    private func append(to text: inout String, indentation: String) {
        let inner = indentation + "  "
        switch self {
        case .array(let elements) where !elements.isEmpty:
            for (index, element) in elements.enumerated() {
                text += (index == 0 ? "[" : ",") + inner
                element.append(to: &text, indentation: inner)
            }
            text += indentation + "]"
        case .object(let object) where !object.isEmpty:
            for (index, member) in object.members.enumerated() {
                text += (index == 0 ? "{" : ",") + inner + JSONValue.string(member.name).description + ": "
                member.value.append(to: &text, indentation: inner)
            }
            text += indentation + "}"
        default:
            text += description
        }
    }
}

extension JSONValue: Equatable {
    /// Returns whether both have the same text: strings equal byte by byte, numbers equal in text, members in the same
    /// order.
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
