internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// What a control call brings: the members of a JSON object, or the parameters of a query. A name that is not known is refused, so
/// that a slip of the pen is not taken for a wish.
struct ControlInput {
    private let values: JSONObject

    /// The body's members. The body is read as JSON whatever `Content-Type` says, which `curl -d` does not set.
    ///
    /// - Throws: ``Problem``.
    init(bodyOf request: Request, known: Set<String>) throws(Problem) {
        let json: JSONValue
        do { json = try JSONValue(parsing: request.body) } catch {
            throw Problem(.badRequest, "The body is not JSON: \(error).")
        }
        guard case .object(let object) = json else { throw Problem(.badRequest, "The body must be a JSON object.") }
        values = object
        try checkNames(known)
    }

    /// The query's parameters, as strings.
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
            throw Self.problem(name, "is not known here", allowed: known.sorted().joined(separator: ", "))
        }
    }

    /// A field error.
    static func problem(_ name: String, _ what: String, allowed: String) -> Problem {
        Problem(
            .badRequest,
            kind: "invalid-field",
            "\(name) \(what).",
            members: ["field": .string(name), "allowed": .string(allowed)]
        )
    }

    /// A member as it came; `nil` if it is missing or `null`.
    func value(_ name: String) -> JSONValue? {
        guard let value = values[name], !value.isNull else { return nil }
        return value
    }

    func string(_ name: String) throws(Problem) -> String? {
        guard let value = value(name) else { return nil }
        guard let text = value.string else { throw Self.problem(name, "must be a string", allowed: "a string") }
        return text
    }

    /// A string of 1 to 4096 bytes that must be there.
    func requiredString(_ name: String) throws(Problem) -> String {
        guard let text = try string(name), (1...4096).contains(text.utf8.count) else {
            throw Self.problem(name, "must be a string of 1 to 4096 bytes", allowed: "1 to 4096 bytes")
        }
        return text
    }

    /// An integer, which may also come as a string of digits.
    func integer(_ name: String, in range: ClosedRange<Int64>) throws(Problem) -> Int64? {
        value(name) == nil ? nil : try requiredInteger(name, in: range)
    }

    /// The same for one that may not be left out.
    func requiredInteger(_ name: String, in range: ClosedRange<Int64>) throws(Problem) -> Int64 {
        let value = value(name)
        let integer = value?.integer ?? value?.string.flatMap { JSONNumber($0)?.int64 }
        guard let integer, range.contains(integer) else {
            let allowed = "\(range.lowerBound) to \(range.upperBound)"
            throw Self.problem(name, "must be an integer from \(allowed)", allowed: allowed)
        }
        return integer
    }

    func bool(_ name: String) throws(Problem) -> Bool? {
        guard let value = value(name) else { return nil }
        guard let bool = value.bool else { throw Self.problem(name, "must be true or false", allowed: "true, false") }
        return bool
    }

    /// One of the raw values of an enumeration.
    func choice<Choice: RawRepresentable<String> & CaseIterable>(_ name: String) throws(Problem) -> Choice? {
        guard let text = try string(name) else { return nil }
        guard let choice = Choice(rawValue: text) else {
            let allowed = Choice.allCases.map(\.rawValue).joined(separator: ", ")
            throw Self.problem(name, "must be one of \(allowed)", allowed: allowed)
        }
        return choice
    }
}
