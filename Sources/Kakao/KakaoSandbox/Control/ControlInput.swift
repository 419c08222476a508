import HTTPServer
import HTTPTypes
import JSON
import Net
import Schemas

/// The input of a control call: the members of a JSON object, or the parameters of a query.
///
/// Unknown names are rejected, so that a misspelled one is not silently ignored.
struct ControlInput {
    private static let maximumLimit: Int64 = 10_000

    private let values: JSONObject

    /// Reads the members of the body, which is parsed as JSON whatever its `Content-Type`: `curl -d` does not set it to
    /// JSON.
    ///
    /// - Throws: ``Problem``.
    init(bodyOf request: Request, known: Set<String>) throws(Problem) {
        let json: JSONValue
        do { json = try JSONValue(parsing: request.body) } catch {
            throw Problem(.badRequest, "The body is not JSON: \(error).")
        }
        guard case .object(let object) = json else { throw Problem(.badRequest, "The body must be a JSON object.") }
        try self.init(object, known: known)
    }

    /// Takes the members of an object.
    ///
    /// - Throws: ``Problem``.
    init(_ object: JSONObject, known: Set<String>) throws(Problem) {
        values = object
        try checkNames(known)
    }

    /// Reads the parameters of the query as strings.
    ///
    /// - Throws: ``Problem``.
    init(queryOf request: Request, known: Set<String>) throws(Problem) {
        do {
            var values = JSONObject()
            for (name, value) in try request.queryItems() { values[name] = .string(value) }
            self.values = values
        } catch {
            throw Problem(.badRequest, error.message)
        }
        try checkNames(known)
    }

    private func checkNames(_ known: Set<String>) throws(Problem) {
        for (name, _) in values.members where !known.contains(name) {
            throw Self.problem(name, "is not a known field", allowed: known.sorted().joined(separator: ", "))
        }
    }

    /// Returns the problem of an invalid field.
    static func problem(_ name: String, _ what: String, allowed: String) -> Problem {
        Problem(
            .badRequest,
            kind: "invalid-field",
            "\(name) \(what).",
            members: ["field": .string(name), "allowed": .string(allowed)]
        )
    }

    /// Returns a member unchanged; `nil` if it is missing or `null`.
    func value(_ name: String) -> JSONValue? {
        guard let value = values[name], !value.isNull else { return nil }
        return value
    }

    /// Returns an optional member.
    ///
    /// - Parameters:
    ///   - description: The allowed values, in words that follow "must be".
    ///   - allowed: The allowed values for programs, if they differ.
    ///   - read: Returns `nil` for an invalid value.
    func member<Value>(
        _ name: String,
        _ description: String,
        allowed: String? = nil,
        _ read: (JSONValue) -> Value?
    ) throws(Problem) -> Value? {
        guard let value = value(name) else { return nil }
        guard let member = read(value) else {
            throw Self.problem(name, "must be \(description)", allowed: allowed ?? description)
        }
        return member
    }

    func string(_ name: String) throws(Problem) -> String? {
        try member(name, "a string") { $0.string }
    }

    /// Returns a required string of 1 to 4096 bytes.
    func requiredString(_ name: String) throws(Problem) -> String {
        guard let text = try string(name), (1...4096).contains(text.utf8.count) else {
            throw Self.problem(name, "must be a string of 1 to 4096 bytes", allowed: "1 to 4096 bytes")
        }
        return text
    }

    /// Returns an optional array of strings.
    func strings(_ name: String) throws(Problem) -> [String]? {
        try member(name, "an array of strings") { value in
            let texts = value.array?.compactMap(\.string)
            return texts?.count == value.array?.count ? texts : nil
        }
    }

    /// Takes the members of an object in an array, or of a member that is an object.
    ///
    /// - Parameter name: The name of the array or the member.
    init(_ value: JSONValue, in name: String, known: Set<String>) throws(Problem) {
        guard let object = value.object else {
            let allowed = known.sorted().joined(separator: ", ")
            throw Self.problem(name, "has a value that is not a JSON object", allowed: "objects of \(allowed)")
        }
        try self.init(object, known: known)
    }

    /// Returns a required array.
    func array(_ name: String) throws(Problem) -> [JSONValue] {
        guard let array = value(name)?.array else {
            throw Self.problem(name, "must be an array", allowed: "an array")
        }
        return array
    }

    /// Returns an optional array of objects that have only the members of a record.
    func records<Whole>(_ name: String, _ record: Record<Whole>) throws(Problem) -> [Whole]? {
        guard let value = value(name) else { return nil }
        guard let values = value.array else {
            throw Self.problem(name, "must be an array", allowed: "an array of objects")
        }
        return try values.map { value throws(Problem) in
            let object = try Self.object(value, name, known: Set(record.members.map(\.name)))
            do throws(Record<Whole>.InvalidMember) {
                return try record.read(object)
            } catch {
                throw Self.problem("\(name).\(error.name)", "is invalid", allowed: error.allowed)
            }
        }
    }

    /// Returns an optional object that has only known members.
    func object(_ name: String, known: Set<String>) throws(Problem) -> JSONObject? {
        guard let value = value(name) else { return nil }
        return try Self.object(value, name, known: known)
    }

    private static func object(_ value: JSONValue, _ name: String, known: Set<String>) throws(Problem) -> JSONObject {
        let allowed = known.sorted().joined(separator: ", ")
        guard let object = value.object else {
            throw problem(name, "has a value that is not a JSON object", allowed: "an object of \(allowed)")
        }
        if let unknown = object.members.first(where: { !known.contains($0.name) })?.name {
            throw problem(name, "has the unknown member \(unknown)", allowed: allowed)
        }
        return object
    }

    /// Returns an optional integer, which may also be a string of digits.
    func integer(_ name: String, in range: ClosedRange<Int64>) throws(Problem) -> Int64? {
        value(name) == nil ? nil : try requiredInteger(name, in: range)
    }

    /// Returns a required integer, which may also be a string of digits.
    func requiredInteger(_ name: String, in range: ClosedRange<Int64>) throws(Problem) -> Int64 {
        let value = value(name)
        let integer = value?.integer ?? value?.string.flatMap { JSONNumber($0)?.int64 }
        guard let integer, range.contains(integer) else {
            let allowed = "\(range.lowerBound) to \(range.upperBound)"
            throw Self.problem(name, "must be an integer from \(allowed)", allowed: allowed)
        }
        return integer
    }

    /// Returns the page of a numbered record that a query asks for: the number after which it begins, and its maximum
    /// length.
    func page() throws(Problem) -> (after: Int, limit: Int) {
        (Int(try integer("after", in: 0...Int64.max) ?? 0), try limit(default: 100))
    }

    /// Returns the maximum length of a list.
    func limit(default standard: Int) throws(Problem) -> Int {
        try integer("limit", in: 1...Self.maximumLimit).map(Int.init) ?? standard
    }

    func bool(_ name: String) throws(Problem) -> Bool? {
        try member(name, "true or false", allowed: "true, false") { $0.bool }
    }

    /// Returns the case of an enumeration whose raw value is the member's string.
    func choice<Choice: RawRepresentable<String> & CaseIterable>(_ name: String) throws(Problem) -> Choice? {
        guard let text = try string(name) else { return nil }
        guard let choice = Choice(rawValue: text) else {
            let allowed = Choice.allCases.map(\.rawValue).joined(separator: ", ")
            throw Self.problem(name, "must be one of \(allowed)", allowed: allowed)
        }
        return choice
    }
}

extension Request {
    /// The user in the path of a control.
    var userID: Int64 {
        get throws(Problem) {
            guard let userID = UserID.read(.string(pathParameter("user_id"))) else {
                throw Problem(.notFound, "The user id in the path must be an integer from 1 to 2^63-1.")
            }
            return userID
        }
    }
}
