internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// The parameters of a request, whether they came as JSON, as a form, or in the query.
///
/// A form's values are texts, and Kakao puts JSON text into them where a value is an array or an object: both are read alike here, so
/// that each endpoint says once what a field may hold.
struct Parameters {
    private enum Value {
        /// From a form or a query.
        case text(String)
        case json(JSONValue)
    }

    private var values: [String: Value] = [:]
    /// The names in the order they came.
    private(set) var names: [String] = []

    /// Reads the body of a request that has one; the query of one that has none.
    ///
    /// - Throws: ``Problem``: 415 for a body of another media type, 400 for one that cannot be read or names a field twice.
    init(_ request: Request) throws {
        guard request.method != .get && request.method != .head else {
            try self.init(pairs: request.queryItems())
            return
        }
        try self.init(bodyOf: request)
    }

    /// Reads the query and, of a request that has one, the body: for what is named by its path and something besides.
    ///
    /// - Throws: ``Problem`` as ``init(_:)`` does, also for a field that is in both.
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
                "The body must be application/json or application/x-www-form-urlencoded, as Content-Type says."
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
                "The body is not JSON: \(error.message) at byte \(error.offset)."
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

    /// Whether a field was given.
    func has(_ name: String) -> Bool { values[name] != nil }

    /// Refuses what has no meaning here: a misspelt `dry_run` would send.
    ///
    /// - Throws: ``Problem`` for the first field that is not one of `known`.
    func requireOnly(_ known: Set<String>) throws {
        guard let name = names.first(where: { !known.contains($0) }) else { return }
        throw Problem.field(name, "left out: it is not one of \(known.sorted().joined(separator: ", "))")
    }

    // MARK: Kinds of field

    /// A user's number.
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

    /// Several users' numbers: an array, or in a form the text of a JSON array.
    func userIDs(_ name: String, count: ClosedRange<Int>) throws -> [Int64] {
        let allowed =
            "an array of \(count.lowerBound) to \(count.upperBound) integers from 1 to 9223372036854775807"
        guard let value = try structured(name, allowed), let ids = Self.userIDs(value, count: count) else {
            throw Problem.field(name, allowed)
        }
        return ids
    }

    /// The users' numbers of an array, or `nil` if one is none or there are too few or too many.
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

    /// A text of `length` characters without control characters.
    func text(_ name: String, length: ClosedRange<Int>) throws -> String {
        guard let text = try optionalText(name, length: length) else {
            throw Problem.field(name, Self.allowedText(length))
        }
        return text
    }

    /// The same for a field that may be left out.
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

    /// The same for what stands in a path.
    static func text(_ text: String, _ name: String, length: ClosedRange<Int>) throws -> String {
        guard isText(text, length) else { throw Problem.field(name, allowedText(length)) }
        return text
    }

    /// Several short texts: an array, or in a form the text of a JSON array. Empty when left out.
    func texts(_ name: String, count: Int, length: ClosedRange<Int>) throws -> [String] {
        guard has(name) else { return [] }
        let allowed = "an array of at most \(count) texts of \(length.lowerBound) to \(length.upperBound) characters"
        guard let value = try structured(name, allowed), let texts = Self.texts(value, count: 0...count, length: length)
        else { throw Problem.field(name, allowed) }
        return texts
    }

    /// The texts of an array, or `nil` if one is none or there are too few or too many.
    static func texts(_ value: JSONValue, count: ClosedRange<Int>, length: ClosedRange<Int>) -> [String]? {
        guard let elements = value.array, count.contains(elements.count) else { return nil }
        let texts = elements.compactMap(\.string).filter { isText($0, length) }
        return texts.count == elements.count ? texts : nil
    }

    /// A JSON object: itself, or its text.
    func object(_ name: String) throws -> JSONObject {
        let allowed = "a JSON object"
        guard let object = try structured(name, allowed)?.object else { throw Problem.field(name, allowed) }
        return object
    }

    /// `true` or `false`.
    func boolean(_ name: String, default value: Bool) throws -> Bool {
        switch values[name] {
        case nil: value
        case .text("true"), .json(.bool(true)), .json(.string("true")): true
        case .text("false"), .json(.bool(false)), .json(.string("false")): false
        default: throw Problem.field(name, "true or false")
        }
    }

    /// One of the texts that `Value` knows.
    func optionalChoice<Value: RawRepresentable<String> & CaseIterable>(_ name: String, of: Value.Type) throws -> Value?
    {
        let allowed = Value.allCases.map(\.rawValue).joined(separator: ", ")
        return try optionalText(name, length: 1...64).map { text in
            guard let value = Value(rawValue: text) else { throw Problem.field(name, "one of \(allowed)") }
            return value
        }
    }

    /// An integer of 64 bits.
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

    /// Any value as text: a text as it is, anything else as its JSON.
    func anyText(_ name: String) -> String? {
        switch values[name] {
        case nil: nil
        case .text(let text), .json(.string(let text)): text
        case .json(let value): String(decoding: value.bytes(), as: UTF8.self)
        }
    }

    /// A value with a structure: JSON as it came, or read from a form's text.
    private func structured(_ name: String, _ allowed: String) throws -> JSONValue? {
        switch values[name] {
        case nil: return nil
        case .json(.string(let text)), .text(let text):
            do {
                return try JSONValue(parsing: Array(text.utf8))
            } catch {
                throw Problem.field(name, "\(allowed); it is not JSON: \(error.message) at byte \(error.offset)")
            }
        case .json(let value): return value
        }
    }

    /// Whether it is a text of `length` characters without control characters.
    static func isText(_ text: String, _ length: ClosedRange<Int>) -> Bool {
        // Bounded in bytes first, since counting is linear.
        guard text.utf8.count <= length.upperBound * 4 else { return false }
        // In Unicode scalars, as PostgreSQL and Kakao's Java count: the bytes that continue none.
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

    /// What such a text is, as it reads after "must be".
    static func allowedText(_ length: ClosedRange<Int>) -> String {
        "a text of \(length.lowerBound) to \(length.upperBound) characters, without control characters"
    }
}

extension Int64 {
    /// The number that `text` spells in decimal: no sign but a leading minus, no leading zeros, nothing else.
    init?(decimal text: String) {
        let digits = text.hasPrefix("-") ? text.utf8.dropFirst() : text.utf8[...]
        guard let first = digits.first, first != 0x30 || text == "0", digits.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 })
        else {
            return nil
        }
        self.init(text)
    }
}
