import HTTPServer
import HTTPTypes
import JSON
import Net
import Schemas

/// The fields of a request's query and of its body, which is JSON or a form.
struct Parameters: Sendable {
    /// The number of ignored fields whose names are kept. More names mean a wrong request, not a misspelling.
    private static let maximumIgnoredNames = 20

    /// The fields in the order of the request. The values of a query and of a form are strings.
    private(set) var values = JSONObject()
    /// The names of fields that were dropped, up to a limit.
    private(set) var ignoredNames: [String] = []
    /// The names of fields that were given twice, and whose values were dropped, in a call that is never rejected.
    private(set) var repeatedNames: Set<String> = []
    /// Whether a field could not be read, or was given twice, in a call that is never rejected.
    private(set) var isMalformed = false

    /// Adds the fields of a query or a form.
    ///
    /// - Throws: ``Problem`` 400 for a field that is not allowed or is given twice.
    mutating func add(_ pairs: [(name: String, value: String)], _ allowed: AllowedFields) throws {
        values.reserveCapacity(values.count + pairs.count)
        for (name, value) in pairs { try add(name, .string(value), allowed) }
    }

    /// Adds the members of a JSON object. A member that is `null` counts as absent, unless it is one that the operation rejects.
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
        for (name, value) in object.members {
            if value.isNull, allowed.others == .ignored || allowed.contains(allowed.declaredName(name)) { continue }
            try add(name, value, allowed)
        }
    }

    /// Adds the fields of a query or a form that can be read.
    mutating func keep(form: ArraySlice<UInt8>) {
        let (pairs, isAll) = FormURLEncoded.parseLeniently(form)
        if !isAll { isMalformed = true }
        keep(pairs.map { ($0.name, .string($0.value)) })
    }

    /// Adds the members of a JSON object, unless it is invalid. A member that is `null` counts as absent.
    mutating func keep(json: [UInt8]) {
        guard case .object(let object)? = try? JSONValue(parsing: json) else {
            isMalformed = true
            return
        }
        guard object.members.contains(where: \.value.isNull) else {
            values = object
            return
        }
        keep(object.members.filter { !$0.value.isNull })
    }

    private mutating func keep(_ fields: [(name: String, value: JSONValue)]) {
        values.reserveCapacity(fields.count)
        for (name, value) in fields where !values.append(name, value) { repeatedNames.insert(name) }
        guard !repeatedNames.isEmpty else { return }
        isMalformed = true
        var others = JSONObject()
        for (name, value) in values.members where !repeatedNames.contains(name) { others[name] = value }
        values = others
    }

    /// Keeps the names of fields that are ignored.
    mutating func ignore(_ names: [String]) {
        ignoredNames += names.prefix(Self.maximumIgnoredNames - ignoredNames.count)
    }

    /// Adds a field, unless it is ignored. Keeps the name of one that is ignored.
    private mutating func add(_ given: String, _ value: JSONValue, _ allowed: AllowedFields) throws {
        let name = allowed.declaredName(given)
        if !allowed.contains(name) {
            guard allowed.others == .ignored else { throw allowed.problem(of: name) }
            ignore([name])
        } else {
            guard values.append(name, value, isRepeatable: allowed.isRepeatable(name)) else {
                var problem = Problem.field(name, "a single value", "It is given twice.")
                problem.field = allowed.declaration(of: name)
                throw problem
            }
        }
    }
}
