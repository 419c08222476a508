internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// The fields of a request's query and of its body, which is JSON or a form.
struct Parameters: Sendable {
    /// The number of ignored fields whose names are kept. More names mean a wrong request, not a misspelling.
    private static let maximumIgnoredNames = 20

    private(set) var values: [String: ParameterValue] = [:]
    /// The names of ``values``, in the order of the request.
    private(set) var names: [String] = []
    /// The names of fields that were dropped, up to a limit.
    private(set) var ignoredNames: [String] = []

    /// Adds the fields of a query or a form.
    ///
    /// - Throws: ``Problem`` 400 for a field that is not allowed or is given twice.
    mutating func add(_ pairs: [(name: String, value: String)], _ allowed: AllowedFields) throws {
        values.reserveCapacity(values.count + pairs.count)
        names.reserveCapacity(names.count + pairs.count)
        for (name, value) in pairs where try accepts(name, allowed) {
            guard values.updateValue(.text(value), forKey: name) == nil else { throw Problem.field(name, "given once") }
            names.append(name)
        }
    }

    /// Adds the members of a JSON object. A member that is `null` counts as absent.
    ///
    /// - Throws: ``Problem`` 400 for invalid JSON, another value than an object, or a field that is not allowed or is
    ///   in the query too.
    mutating func add(json: [UInt8], _ allowed: AllowedFields) throws {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: json)
        } catch {
            throw Problem(of: .invalidJSON, "The body is not valid JSON: \(error.message) at byte \(error.offset).")
        }
        guard case .object(let object) = value else {
            throw Problem(of: .invalidJSON, "The body must be a JSON object.")
        }
        let queryNames = Set(names)
        for (name, value) in object.members where try !value.isNull && accepts(name, allowed) {
            guard !queryNames.contains(name) else { throw Problem.field(name, "given once") }
            values[name] = .json(value)
            names.append(name)
        }
    }

    /// Returns whether a field is to be added. Keeps the name of one that is ignored.
    ///
    /// - Throws: ``Problem`` 400 for a field that is rejected.
    private mutating func accepts(_ name: String, _ allowed: AllowedFields) throws -> Bool {
        switch allowed.others {
        case .kept: return true
        case .rejected:
            guard allowed.contains(name) else { throw allowed.problem(of: name) }
            return true
        case .ignored:
            if allowed.contains(name) { return true }
            if ignoredNames.count < Self.maximumIgnoredNames { ignoredNames.append(name) }
            return false
        }
    }
}
