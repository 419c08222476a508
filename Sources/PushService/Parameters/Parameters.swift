internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// The parameters of a request, from a JSON body, a form or the query.
///
/// A form's values are texts. Where Kakao's API has an array or object, the text is JSON. Forms and JSON bodies are
/// read alike, so each endpoint states once what a field may contain.
struct Parameters {
    private enum Value {
        /// A value of a form or query.
        case text(String)
        /// A value of a JSON body.
        case json(JSONValue)
    }

    private var values: [String: Value] = [:]
    /// The names in the order of the request.
    private(set) var names: [String] = []

    /// Reads the query of a GET or HEAD request, and the body of any other.
    ///
    /// - Throws: ``Problem``: 415 for a body of another media type, 400 for an invalid body or query or a duplicate
    ///   field.
    init(_ request: Request) throws {
        guard request.method != .get && request.method != .head else {
            try self.init(pairs: request.queryItems())
            return
        }
        try self.init(bodyOf: request)
    }

    /// Reads the query and the body, which may be empty, for an endpoint whose path does not name its object
    /// completely.
    ///
    /// - Throws: ``Problem``: 415 for a body of another media type, 400 for an invalid body or query or a duplicate
    ///   field, even if one of the two is in the query and the other in the body.
    init(queryAndBodyOf request: Request) throws {
        try self.init(pairs: request.queryItems())
        guard !request.body.isEmpty else { return }
        let body = try Parameters(bodyOf: request)
        for name in body.names {
            guard values[name] == nil else { throw Problem.field(name, "given once") }
            values[name] = body.values[name]
            names.append(name)
        }
    }

    private init(bodyOf request: Request) throws {
        switch request.contentType {
        case "application/json":
            try self.init(json: request.body)
        case "application/x-www-form-urlencoded":
            try self.init(pairs: FormURLEncoded.parse(request.body[...]))
        default:
            throw Problem(
                .unsupportedMediaType,
                "Unsupported Content-Type. Allowed: application/json, application/x-www-form-urlencoded."
            )
        }
    }

    private init(pairs: [(name: String, value: String)]) throws {
        values.reserveCapacity(pairs.count)
        names.reserveCapacity(pairs.count)
        for (name, value) in pairs {
            guard values.updateValue(.text(value), forKey: name) == nil else { throw Problem.field(name, "given once") }
            names.append(name)
        }
    }

    private init(json: [UInt8]) throws {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: json)
        } catch {
            throw Problem(
                .badRequest,
                kind: "invalid-json",
                "The body is not valid JSON: \(error.message) at byte \(error.offset)."
            )
        }
        guard case .object(let object) = value else {
            throw Problem(.badRequest, kind: "invalid-json", "The body must be a JSON object.")
        }
        for (name, value) in object.members where !value.isNull {
            values[name] = .json(value)
            names.append(name)
        }
    }

    /// Returns whether a field is present.
    func has(_ name: String) -> Bool { values[name] != nil }

    /// Rejects unknown fields, since a misspelt `dry_run` would send a push.
    ///
    /// - Throws: ``Problem`` for the first field that is not one of `known`.
    func requireOnly(_ known: Set<String>) throws {
        guard let name = names.first(where: { !known.contains($0) }) else { return }
        throw Problem.field(name, "omitted: it is unknown. Allowed: \(known.sorted().joined(separator: ", "))")
    }

    // MARK: Kinds of field

    /// Returns a user's id.
    ///
    /// - Throws: ``Problem`` for a missing or invalid value.
    func userID(_ name: String) throws -> Int64 {
        let allowed = "an integer from 1 to 9223372036854775807"
        let number: Int64? =
            switch values[name] {
            case .text(let text), .json(.string(let text)): Int64(decimal: text)
            case .json(let value): value.integer
            case nil: nil
            }
        guard let number, number > 0 else { throw Problem.field(name, allowed) }
        return number
    }

    /// Returns users' ids from an array, or from the text of a JSON array.
    ///
    /// - Throws: ``Problem`` for a missing or invalid value, or for too few or too many ids.
    func userIDs(_ name: String, count: ClosedRange<Int>) throws -> [Int64] {
        let allowed =
            "an array of \(count.lowerBound) to \(count.upperBound) integers from 1 to 9223372036854775807"
        guard let value = try structured(name, allowed), let ids = Self.userIDs(value, count: count) else {
            throw Problem.field(name, allowed)
        }
        return ids
    }

    /// Returns the users' ids in an array, or `nil` if one is invalid or if there are too few or too many.
    static func userIDs(_ value: JSONValue, count: ClosedRange<Int>) -> [Int64]? {
        guard let elements = value.array, count.contains(elements.count) else { return nil }
        var ids: [Int64] = []
        ids.reserveCapacity(elements.count)
        for element in elements {
            let number = element.string.map { Int64(decimal: $0) } ?? element.integer
            guard let number, number > 0 else { return nil }
            ids.append(number)
        }
        return ids
    }

    /// Returns a text of `length` characters without control characters.
    ///
    /// - Throws: ``Problem`` for a missing or invalid value.
    func text(_ name: String, length: ClosedRange<Int>) throws -> String {
        guard let text = try optionalText(name, length: length) else {
            throw Problem.field(name, Self.allowedText(length))
        }
        return text
    }

    /// Returns a text of `length` characters without control characters, or `nil` if the field is absent.
    ///
    /// - Throws: ``Problem`` for an invalid value.
    func optionalText(_ name: String, length: ClosedRange<Int>) throws -> String? {
        switch values[name] {
        case nil:
            return nil
        case .text(let text), .json(.string(let text)):
            return try Self.text(text, name, length: length)
        case .json:
            throw Problem.field(name, Self.allowedText(length))
        }
    }

    /// Returns `text`, which is part of a path, if it has `length` characters without control characters.
    ///
    /// - Parameter name: The name of the field in the error.
    /// - Throws: ``Problem`` for an invalid text.
    static func text(_ text: String, _ name: String, length: ClosedRange<Int>) throws -> String {
        guard isText(text, length) else { throw Problem.field(name, allowedText(length)) }
        return text
    }

    /// Returns up to `count` texts of an array or of the text of a JSON array; none if the field is absent.
    ///
    /// - Throws: ``Problem`` for an invalid value.
    func texts(_ name: String, count: Int, length: ClosedRange<Int>) throws -> [String] {
        guard has(name) else { return [] }
        let allowed = "an array of at most \(count) texts of \(length.lowerBound) to \(length.upperBound) characters"
        guard let value = try structured(name, allowed), let texts = Self.texts(value, count: 0...count, length: length)
        else { throw Problem.field(name, allowed) }
        return texts
    }

    /// Returns the texts in an array, or `nil` if one is invalid or if there are too few or too many.
    static func texts(_ value: JSONValue, count: ClosedRange<Int>, length: ClosedRange<Int>) -> [String]? {
        guard let elements = value.array, count.contains(elements.count) else { return nil }
        let texts = elements.compactMap(\.string).filter { isText($0, length) }
        return texts.count == elements.count ? texts : nil
    }

    /// Returns a JSON object from an object or from its text.
    ///
    /// - Throws: ``Problem`` for a missing or invalid value.
    func object(_ name: String) throws -> JSONObject {
        let allowed = "a JSON object"
        guard let object = try structured(name, allowed)?.object else { throw Problem.field(name, allowed) }
        return object
    }

    /// Returns a Boolean, given as `true` or `false`, or `value` if the field is absent.
    ///
    /// - Throws: ``Problem`` for an invalid value.
    func boolean(_ name: String, default value: Bool) throws -> Bool {
        switch values[name] {
        case nil: value
        case .text("true"), .json(.bool(true)), .json(.string("true")): true
        case .text("false"), .json(.bool(false)), .json(.string("false")): false
        default: throw Problem.field(name, "true or false")
        }
    }

    /// Returns one of the cases of `Value`, or `nil` if the field is absent.
    ///
    /// - Throws: ``Problem`` for an unknown value.
    func optionalChoice<Value: RawRepresentable<String> & CaseIterable>(_ name: String, of: Value.Type) throws -> Value?
    {
        let allowed = Value.allCases.map(\.rawValue).joined(separator: ", ")
        return try optionalText(name, length: 1...64).map { text in
            guard let value = Value(rawValue: text) else { throw Problem.field(name, "one of \(allowed)") }
            return value
        }
    }

    /// Returns an integer, or `nil` if the field is absent.
    ///
    /// - Throws: ``Problem`` for an invalid value.
    func optionalInteger(_ name: String, in range: ClosedRange<Int64>) throws -> Int64? {
        let number: Int64?
        switch values[name] {
        case nil: return nil
        case .text(let text), .json(.string(let text)): number = Int64(decimal: text)
        case .json(let value): number = value.integer
        }
        guard let number, range.contains(number) else {
            throw Problem.field(name, "an integer from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// Returns any value as text: a text unchanged, another value as JSON. Returns `nil` if the field is absent.
    func anyText(_ name: String) -> String? {
        switch values[name] {
        case nil: nil
        case .text(let text), .json(.string(let text)): text
        case .json(let value): String(decoding: value.bytes(), as: UTF8.self)
        }
    }

    /// Returns a JSON value, parsed from its text if it is given as text, or `nil` if the field is absent.
    private func structured(_ name: String, _ allowed: String) throws -> JSONValue? {
        switch values[name] {
        case nil: return nil
        case .json(.string(let text)), .text(let text):
            do {
                return try JSONValue(parsing: Array(text.utf8))
            } catch {
                throw Problem.field(name, "\(allowed). Invalid JSON: \(error.message) at byte \(error.offset)")
            }
        case .json(let value): return value
        }
    }

    /// Returns whether `text` has `length` characters and no control characters.
    static func isText(_ text: String, _ length: ClosedRange<Int>) -> Bool {
        // The length in bytes is bounded first, since counting characters takes linear time.
        guard text.utf8.count <= length.upperBound * 4 else { return false }
        // Characters are Unicode scalars, as PostgreSQL and Kakao's Java count them: the bytes that are not
        // continuation bytes.
        var text = text
        return text.withUTF8 { bytes in
            var count = 0
            for byte in bytes {
                guard byte >= 0x20 && byte != 0x7F else { return false }
                if byte & 0xC0 != 0x80 { count += 1 }
            }
            return length.contains(count)
        }
    }

    /// Returns the description of a text that ``isText(_:_:)`` accepts, in words that follow "must be".
    static func allowedText(_ length: ClosedRange<Int>) -> String {
        "a text of \(length.lowerBound) to \(length.upperBound) characters, without control characters"
    }
}

extension Int64 {
    /// Parses a decimal number. A leading minus is allowed; a plus, leading zeros and other characters are not.
    init?(decimal text: String) {
        let digits = text.hasPrefix("-") ? text.utf8.dropFirst() : text.utf8[...]
        guard let first = digits.first, first != 0x30 || text == "0", digits.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 })
        else {
            return nil
        }
        self.init(text)
    }
}
