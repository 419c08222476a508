import HTTPServer
package import HTTPTypes
package import JSON
package import Schemas

/// A field of a request: a parameter of the path, of the query or of the body, or a header field.
///
/// An operation lists its fields, and its handler reads them with ``Call/subscript(_:)``.
///
/// A class, so that reading a field costs one reference count, and not a look-up of its type.
package final class Field<Value: Sendable>: Sendable, FieldDeclaration {
    /// The name in the request.
    package let name: String
    /// The part of the request that has the field.
    package let place: FieldPlace
    /// A sentence for readers of the OpenAPI document.
    package let description: String
    /// The schema of a value, with the description.
    package let schema: Schema
    /// Whether each request has the field.
    package let isRequired: Bool
    /// Reads the value; `nil` if the field is absent.
    @usableFromInline let read: @Sendable (JSONValue?) throws(InvalidValue) -> Value
    @usableFromInline let allowed: String

    private init(
        _ name: String,
        _ description: String,
        in place: FieldPlace = .queryOrBody,
        schema: Schema,
        isRequired: Bool = false,
        allowed: String,
        read: @escaping @Sendable (JSONValue?) throws(InvalidValue) -> Value
    ) {
        self.name = name
        self.place = place
        self.description = description
        self.schema = schema.described(description)
        self.isRequired = isRequired
        self.allowed = allowed
        self.read = read
    }

    /// A field of the query or the body that each request has.
    package static func required(_ name: String, _ kind: Kind<Value>, _ description: String) -> Field {
        required(name, kind, description, in: .queryOrBody)
    }

    /// A parameter of the path.
    package static func path(_ name: String, _ kind: Kind<Value>, _ description: String) -> Field {
        required(name, kind, description, in: .path)
    }

    private static func required(
        _ name: String,
        _ kind: Kind<Value>,
        _ description: String,
        in place: FieldPlace
    ) -> Field {
        Field(name, description, in: place, schema: kind.input, isRequired: true, allowed: kind.allowed) {
            value throws(InvalidValue) in
            guard let value else { throw InvalidValue() }
            return try kind.read(value)
        }
    }

    /// A field of the query or the body that may be absent, or `null` in JSON.
    package static func optional<Present>(_ name: String, _ kind: Kind<Present>, _ description: String) -> Field
    where Value == Present? {
        optional(name, kind, description, in: .queryOrBody)
    }

    /// A header field, which may be absent.
    package static func header<Present>(_ name: String, _ kind: Kind<Present>, _ description: String) -> Field
    where Value == Present? {
        optional(name, kind, description, in: .header(.unvalidated(name)))
    }

    private static func optional<Present>(
        _ name: String,
        _ kind: Kind<Present>,
        _ description: String,
        in place: FieldPlace
    ) -> Field where Value == Present? {
        Field(name, description, in: place, schema: kind.input, allowed: kind.allowed) { value throws(InvalidValue) in
            guard let value else { return nil }
            return try kind.read(value)
        }
    }

    /// A field whose value is `value` if it is absent, or `null` in JSON.
    ///
    /// - Parameter shown: `value` as JSON, for the document.
    package static func optional(
        _ name: String,
        _ kind: Kind<Value>,
        default value: Value,
        shown: JSONValue,
        _ description: String
    ) -> Field {
        Field(name, description, schema: kind.input.withDefault(shown), allowed: kind.allowed) {
            given throws(InvalidValue) in
            guard let given else { return value }
            return try kind.read(given)
        }
    }

    /// A field that is false if it is absent, or `null` in JSON.
    package static func flag(_ name: String, _ description: String) -> Field where Value == Bool {
        optional(name, .boolean, default: false, shown: false, description)
    }

    /// - Throws: ``Problem`` 400 for a missing or invalid value.
    @inlinable
    func value(of parameter: JSONValue?) throws -> Value {
        do throws(InvalidValue) {
            return try read(parameter)
        } catch {
            throw problem(error, isMissing: parameter == nil)
        }
    }

    @usableFromInline
    func problem(_ error: InvalidValue, isMissing: Bool) -> any Error {
        Problem.field(name, allowed, error.detail.map { "\($0)." }, isMissing: isMissing)
    }
}

/// The part of a request that has a field.
package enum FieldPlace: Sendable {
    case path
    case header(HTTPField.Name)
    case queryOrBody
}

/// The part of a field that the OpenAPI document and the check for unknown fields read.
package protocol FieldDeclaration: Sendable {
    var name: String { get }
    var description: String { get }
    var schema: Schema { get }
    var isRequired: Bool { get }
    /// Whether the field may be given several times in a query or a form: see ``Kind/isCommaList``.
    var isRepeatable: Bool { get }
}

extension FieldDeclaration {
    package var isRepeatable: Bool { false }
}

/// A parameter of a call of Kakao's, which an endpoint of the same form reads.
extension Record.Member: FieldDeclaration {}

/// All fields of a query whose names begin with a prefix, such as `arg.product_id`.
package struct FieldGroup: Sendable, FieldDeclaration {
    /// The prefix with its dot: `arg.`.
    package let prefix: String
    package let description: String

    /// - Parameter prefix: The prefix with its dot.
    package init(prefix: String, _ description: String) {
        self.prefix = prefix
        self.description = description
    }

    package var name: String { "\(prefix)*" }
    package var schema: Schema { .texts(named: "^\(prefix.dropLast())\\.").described(description) }
    package var isRequired: Bool { false }
}
