import JSON

/// The members of a JSON object in a response: listed once, they are written and described from the same list.
package struct Shape<Value: Sendable>: Sendable {
    /// One member of the object.
    package struct Member: Sendable {
        let name: String
        let schema: Schema
        let isAlwaysPresent: Bool
        let write: @Sendable (Value, inout JSONWriter.Members) -> Void
    }

    let members: [Member]
    /// The kind of these objects, for members and elements of others.
    package let kind: Kind<Value>

    /// - Parameters:
    ///   - name: The name of the schema in the OpenAPI document, such as `Push`.
    ///   - members: The members, in the order in which they are written.
    package init(_ name: String, _ members: [Member]) {
        self.members = members
        let schema = Schema.object(members.map { ($0.name, $0.schema, $0.isAlwaysPresent) })
        kind = .output(schema.named(name)) { value, json in
            json.object { json in
                for member in members { member.write(value, &json) }
            }
        }
    }

    /// Returns a value as JSON.
    package func json(_ value: Value) -> [UInt8] {
        var json = JSONWriter(reservingCapacity: 1024)
        kind.write(value, &json)
        return json.bytes
    }
}

extension Shape.Member {
    /// A member that is always present.
    package static func member<Content>(
        _ name: String,
        _ kind: Kind<Content>,
        _ description: String,
        _ content: @escaping @Sendable (Value) -> Content
    ) -> Self {
        Self(name: name, schema: kind.output.described(description), isAlwaysPresent: true) { value, json in
            let content = content(value)
            json.member(name) { kind.write(content, &$0) }
        }
    }

    /// A member that is `null` if there is no value.
    package static func nullable<Content>(
        _ name: String,
        _ kind: Kind<Content>,
        _ description: String,
        _ content: @escaping @Sendable (Value) -> Content?
    ) -> Self {
        .member(name, kind.nullable, description, content)
    }

    /// A member that is an array.
    package static func array<Content>(
        _ name: String,
        _ kind: Kind<Content>,
        _ description: String,
        _ content: @escaping @Sendable (Value) -> [Content]
    ) -> Self {
        .member(name, kind.array, description, content)
    }

    /// A member that is absent if its value is `nil`.
    package static func optional<Content>(
        _ name: String,
        _ kind: Kind<Content>,
        _ description: String,
        _ content: @escaping @Sendable (Value) -> Content?
    ) -> Self {
        Self(name: name, schema: kind.output.described(description), isAlwaysPresent: false) { value, json in
            guard let content = content(value) else { return }
            json.member(name) { kind.write(content, &$0) }
        }
    }
}
