package import JSON

/// A JSON Schema (draft 2020-12, as OpenAPI 3.1 uses it), together with the named schemas that it refers to.
package struct Schema: Sendable {
    /// The schema itself.
    package let object: JSONObject
    /// The schemas that `$ref`s point to, by their names below `#/components/schemas`.
    package private(set) var components: [String: JSONObject] = [:]

    init(_ object: JSONObject, of parts: [Schema] = []) {
        self.object = object
        for part in parts { components.merge(part.components) { first, _ in first } }
    }

    /// Any value.
    package static let any = Schema([:])

    package static let boolean = Schema(["type": "boolean"])

    package static let number = Schema(["type": "number"])

    package static func integer(_ range: ClosedRange<Int64>, multipleOf step: Int64? = nil) -> Schema {
        var object: JSONObject = [
            "type": "integer", "minimum": .integer(range.lowerBound), "maximum": .integer(range.upperBound),
        ]
        object["multipleOf"] = step.map { .integer($0) }
        return Schema(object)
    }

    /// A text. `length` counts Unicode characters.
    package static func text(
        length: ClosedRange<Int>? = nil,
        pattern: String? = nil,
        format: String? = nil
    ) -> Schema {
        var object: JSONObject = ["type": "string"]
        object["format"] = format.map { .string($0) }
        object["minLength"] = length.map { .integer($0.lowerBound) }
        object["maxLength"] = length.map { .integer($0.upperBound) }
        object["pattern"] = pattern.map { .string($0) }
        return Schema(object)
    }

    /// A text that must not be shown, such as a token.
    package static let secret = text(format: "password")

    /// One of some texts.
    package static func choice(_ values: [String]) -> Schema {
        Schema(["type": "string", "enum": .array(values.map { .string($0) })])
    }

    /// Always the same value.
    package static func constant(_ value: JSONValue) -> Schema {
        Schema(["const": value])
    }

    /// An array, perhaps with a limited number of elements.
    package static func array(of element: Schema, count: ClosedRange<Int>? = nil) -> Schema {
        var object: JSONObject = ["type": "array", "items": .object(element.object)]
        object["minItems"] = count.map { .integer($0.lowerBound) }
        object["maxItems"] = count.map { .integer($0.upperBound) }
        return Schema(object, of: [element])
    }

    /// An object with any members.
    package static let object = Schema(["type": "object"])

    /// An object of texts, numbers and booleans with any names.
    package static let scalars = Schema([
        "type": "object", "additionalProperties": ["type": ["string", "number", "boolean"]],
    ])

    /// An object with these members, and no others unless these are allowed.
    package static func object(
        _ members: [(name: String, schema: Schema, isRequired: Bool)],
        allowingOthers: Bool = false
    ) -> Schema {
        var properties = JSONObject()
        for member in members { properties[member.name] = .object(member.schema.object) }
        var object: JSONObject = ["type": "object", "properties": .object(properties)]
        let required = members.filter(\.isRequired).map { JSONValue.string($0.name) }
        if !required.isEmpty { object["required"] = .array(required) }
        if !allowingOthers { object["additionalProperties"] = false }
        return Schema(object, of: members.map(\.schema))
    }

    /// An object with at least one of some members, whose values are objects, but not with all of some others.
    package static func object(havingAnyOf names: [String], butNotAllOf exclusive: [String]) -> Schema {
        var properties = JSONObject()
        for name in names { properties[name] = ["type": "object"] }
        return Schema([
            "type": "object", "properties": .object(properties),
            "anyOf": .array(names.map { ["required": [.string($0)]] }),
            "not": ["required": .array(exclusive.map { .string($0) })],
        ])
    }

    /// An object of texts whose names match a regular expression.
    package static func texts(named pattern: String) -> Schema {
        Schema([
            "type": "object", "patternProperties": .object([pattern: ["type": "string"]]),
            "additionalProperties": false,
        ])
    }

    /// An object of at most `count` values of one schema.
    ///
    /// - Parameter names: The number of characters of a name.
    package static func map(of element: Schema, count: Int, names: ClosedRange<Int>) -> Schema {
        let name = text(length: names, pattern: Text.pattern)
        return Schema(
            [
                "type": "object", "propertyNames": .object(name.object),
                "additionalProperties": .object(element.object), "maxProperties": .integer(count),
            ],
            of: [element]
        )
    }

    /// A value of exactly one of some schemas.
    package static func oneOf(_ schemas: [Schema]) -> Schema {
        Schema(["oneOf": .array(schemas.map { .object($0.object) })], of: schemas)
    }

    /// This schema or `null`.
    package var nullable: Schema {
        var object = object
        if case .string(let type) = object["type"], object["enum"] == nil {
            object["type"] = [.string(type), "null"]
            return Schema(object, of: [self])
        }
        // The annotations belong to both.
        var outer = JSONObject()
        for name in ["description", "default"] { outer[name] = object.removeValue(forName: name) }
        outer["anyOf"] = [.object(object), ["type": "null"]]
        return Schema(outer, of: [self])
    }

    /// This schema with a sentence for readers.
    package func described(_ description: String) -> Schema {
        var object = object
        object["description"] = .string(description)
        return Schema(object, of: [self])
    }

    /// This schema with a value for readers.
    package func withExample(_ value: JSONValue) -> Schema {
        var object = object
        object["examples"] = [value]
        return Schema(object, of: [self])
    }

    /// This schema with the value that an absent field has.
    package func withDefault(_ value: JSONValue) -> Schema {
        var object = object
        object["default"] = value
        return Schema(object, of: [self])
    }

    /// The texts that are its values, if these are listed.
    package var choices: [String]? {
        object["enum"]?.array?.compactMap(\.string)
    }

    /// Whether its values must not be shown: see ``secret``.
    package var isSecret: Bool { object["format"] == .string("password") }

    /// Whether its values are arrays or objects, which a form contains as JSON.
    package var isStructured: Bool { isArray || object["type"] == .string("object") }

    /// Whether its values are arrays.
    package var isArray: Bool { object["type"] == .string("array") }

    /// A reference to this schema under a name.
    package func named(_ name: String) -> Schema {
        var reference = Schema(["$ref": .string("#/components/schemas/\(name)")], of: [self])
        reference.components[name] = object
        return reference
    }
}
