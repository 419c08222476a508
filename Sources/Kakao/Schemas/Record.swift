package import JSON

/// An object whose members are listed once: it is read, written and described from the same list.
///
/// ```swift
/// struct Receipt {
///     let id: Int64
///     let note: String?
///
///     static let record = Record<Receipt>(
///         .required("id", \.id, .integer(1...Int64.max), "The id."),
///         .optional("note", \.note, .text, "A note."),
///         make: Receipt.init
///     )
/// }
/// ```
package struct Record<Whole: Sendable>: Sendable {
    /// A member of the object, whatever the type of its value.
    package struct Member: Sendable {
        package let name: String
        /// A sentence for readers of a document.
        package let description: String
        /// The schema of a value, with the description.
        package let schema: Schema
        package let isRequired: Bool
        /// Whether the member may be given several times: see ``Kind/isCommaList``.
        package let isRepeatable: Bool
        /// Returns the member's value as text, as a form or a query contains it; `nil` if it is absent.
        package let text: @Sendable (Whole) -> String?
        let write: @Sendable (Whole, inout JSONWriter.Members) -> Void
    }

    /// A value of a member is missing, not of its kind, or not allowed together with the other members.
    package struct InvalidMember: Error {
        package let name: String
        package let isMissing: Bool
        /// The allowed values, in words that follow "must be".
        package let allowed: String
        /// The reason in a sentence without its full stop, such as the place of a syntax error: see ``InvalidValue/detail``.
        package let detail: String?

        package init(_ name: String, isMissing: Bool = false, allowed: String, detail: String? = nil) {
            self.name = name
            self.isMissing = isMissing
            self.allowed = allowed
            self.detail = detail
        }
    }

    package let members: [Member]
    private let make: @Sendable (JSONObject, _ isLenient: Bool) throws(InvalidMember) -> Whole
    private let check: @Sendable (Whole) throws(InvalidMember) -> Void

    /// - Parameters:
    ///   - member: The members, in the order in which they are written.
    ///   - make: Returns the whole that has these values: an initializer with a parameter for each member.
    ///   - check: Checks the rules between members of a request, such as two that exclude each other.
    package init<each Value: Sendable>(
        _ member: repeat RecordMember<Whole, each Value>,
        make: @escaping @Sendable (repeat each Value) -> Whole,
        check: @escaping @Sendable (Whole) throws(InvalidMember) -> Void = { _ in }
    ) {
        var members: [Member] = []
        for member in repeat each member { members += member.erased }
        self.members = members
        self.make = { object, isLenient throws(InvalidMember) in
            make(repeat try (each member).value(in: object, isLenient: isLenient))
        }
        self.check = check
    }

    /// Reads the members of a request. Other members are ignored.
    package func read(_ object: JSONObject) throws(InvalidMember) -> Whole {
        let whole = try make(object, false)
        try check(whole)
        return whole
    }

    /// Reads the members of a response. An optional member that is `null` or invalid counts as absent, because one
    /// unexpected value must not make the rest unusable.
    package func readLeniently(_ object: JSONObject) throws(InvalidMember) -> Whole {
        try make(object, true)
    }

    /// Writes the object.
    package func write(_ whole: Whole, _ json: inout JSONWriter) {
        json.object { json in
            for member in members { member.write(whole, &json) }
        }
    }

    /// The kind of these objects, as responses contain them.
    ///
    /// - Parameter name: The name of the schema in the OpenAPI document.
    package func kind(_ name: String) -> Kind<Whole> {
        let schema = Schema.object(
            members.map { ($0.name, $0.isRequired ? $0.schema : $0.schema.nullable, $0.isRequired) },
            allowingOthers: true
        )
        return Kind(
            schema.named(name),
            allowed: "an object",
            read: { value throws(InvalidValue) in
                guard let object = value.object else { throw InvalidValue() }
                do throws(InvalidMember) {
                    return try readLeniently(object)
                } catch {
                    let detail = error.detail.map { ". \($0)" } ?? ""
                    throw InvalidValue("\(error.name) must be \(error.allowed)\(detail)")
                }
            },
            write: { write($0, &$1) }
        )
    }
}

/// A member of a ``Record`` with the type of its value, or several members that make one value.
package struct RecordMember<Whole: Sendable, Value: Sendable>: Sendable {
    let erased: [Record<Whole>.Member]
    /// Reads the value from the whole's object.
    private let read: @Sendable (JSONObject, _ isLenient: Bool) throws(Record<Whole>.InvalidMember) -> Value

    /// A member that every object has.
    package static func required(
        _ name: String,
        _ get: @escaping @Sendable (Whole) -> Value,
        _ kind: Kind<Value>,
        _ description: String
    ) -> RecordMember {
        RecordMember(
            Record<Whole>.Member(
                name: name,
                description: description,
                schema: kind.input.described(description),
                isRequired: true,
                isRepeatable: kind.isCommaList,
                text: { kind.text(get($0)) },
                write: { whole, json in
                    let value = get(whole)
                    json.member(name) { kind.write(value, &$0) }
                }
            ),
            allowed: kind.allowed
        ) { value, _ throws(InvalidValue) in
            guard let value else { throw InvalidValue() }
            return try kind.read(value)
        }
    }

    /// A member that is absent if its value is `nil`.
    package static func optional<Present>(
        _ name: String,
        _ get: @escaping @Sendable (Whole) -> Present?,
        _ kind: Kind<Present>,
        _ description: String
    ) -> RecordMember where Value == Present? {
        RecordMember(
            Record<Whole>.Member(
                name: name,
                description: description,
                schema: kind.input.described(description),
                isRequired: false,
                isRepeatable: kind.isCommaList,
                text: { get($0).map(kind.text) },
                write: { whole, json in
                    guard let value = get(whole) else { return }
                    json.member(name) { kind.write(value, &$0) }
                }
            ),
            allowed: kind.allowed
        ) { value, isLenient throws(InvalidValue) in
            guard let value, !value.isNull else { return nil }
            // Some clients write `null` into a form for an absent array or object.
            if case .string("null") = value, kind.input.isStructured { return nil }
            // dio, the HTTP client of Flutter, sends a bare name for an absent parameter.
            let isEmpty = if case .string(let text) = value { text.isEmpty } else { false }
            guard isLenient || isEmpty else { return try kind.read(value) }
            return try? kind.read(value)
        }
    }

    /// The members of another record, which the object has beside its own.
    package static func members(
        of record: Record<Value>,
        _ get: @escaping @Sendable (Whole) -> Value
    ) -> RecordMember {
        RecordMember(
            erased: record.members.map { member in
                Record<Whole>.Member(
                    name: member.name,
                    description: member.description,
                    schema: member.schema,
                    isRequired: member.isRequired,
                    isRepeatable: member.isRepeatable,
                    text: { member.text(get($0)) },
                    write: { member.write(get($0), &$1) }
                )
            }
        ) { object, isLenient throws(Record<Whole>.InvalidMember) in
            do throws(Record<Value>.InvalidMember) {
                return isLenient ? try record.readLeniently(object) : try record.read(object)
            } catch {
                throw Record<Whole>.InvalidMember(
                    error.name,
                    isMissing: error.isMissing,
                    allowed: error.allowed,
                    detail: error.detail
                )
            }
        }
    }

    private init(
        erased: [Record<Whole>.Member],
        read: @escaping @Sendable (JSONObject, _ isLenient: Bool) throws(Record<Whole>.InvalidMember) -> Value
    ) {
        self.erased = erased
        self.read = read
    }

    private init(
        _ member: Record<Whole>.Member,
        allowed: String,
        read: @escaping @Sendable (JSONValue?, _ isLenient: Bool) throws(InvalidValue) -> Value
    ) {
        self.init(erased: [member]) { object, isLenient throws(Record<Whole>.InvalidMember) in
            let value = object[member.name]
            do throws(InvalidValue) {
                return try read(value, isLenient)
            } catch {
                throw Record<Whole>.InvalidMember(
                    member.name,
                    isMissing: value == nil,
                    allowed: allowed,
                    detail: error.detail
                )
            }
        }
    }

    func value(in object: JSONObject, isLenient: Bool) throws(Record<Whole>.InvalidMember) -> Value {
        try read(object, isLenient)
    }
}
