package import HTTPServer
import HTTPTypes
package import JSON
import Net
import Schemas

/// A request to an operation: its caller and its fields.
package struct Call: Sendable {
    /// The request itself, for its header fields, its loop and a body that the handler reads itself.
    package let request: Request
    let operation: OperationDeclaration
    private var parameters = Parameters()

    /// - Throws: ``Problem``: 415 for an encoded body or one of another media type; 400 for an invalid body or query, or
    ///   for a field that is unknown or given twice.
    init(_ request: Request, _ operation: OperationDeclaration) throws {
        self.request = request
        self.operation = operation
        if operation.asksForKey { try checkSignIn() }
        if operation.unknownFields == .kept {
            readKeptFields()
            return
        }
        if !request.head.query.isEmpty {
            try parameters.add(request.queryItems(), operation.allowedInQuery)
        }
        if operation.method != .get {
            try rejectEncodedBody()
            try readBody()
        } else if operation.unknownFields == .ignored, !request.body.isEmpty {
            parameters.ignore(namesInBody)
        }
    }

    /// - Throws: ``Problem`` 403 for an operator who has to enter the key again.
    private func checkSignIn() throws {
        guard let session = caller.key?.session, !session.isRecent else { return }
        throw Problem(
            of: .keyRequired,
            "Enter your key again: for this, it must have been entered in the last five minutes."
        )
    }

    /// The names of the fields in the body of a GET. As in Kakao's API, none of them is read.
    private var namesInBody: [String] {
        switch request.contentType {
        case "application/json":
            ((try? JSONValue(parsing: request.body))?.object?.members ?? []).map(\.name)
        case FormURLEncoded.mediaType: FormURLEncoded.parseLeniently(request.body[...]).pairs.map(\.name)
        default: []
        }
    }

    /// - Throws: ``Problem`` 415 for a body that is compressed: none is decompressed here (RFC 9110 §15.5.16).
    private func rejectEncodedBody() throws {
        guard let encoding = request[.contentEncoding], encoding.lowercased() != "identity" else { return }
        throw Problem(
            of: .unsupportedMediaType,
            "The body is encoded, but compressed bodies are not supported. Send it without Content-Encoding.",
            headerFields: [.acceptEncoding: "identity"]
        )
    }

    /// Reads the fields of a call that is never rejected.
    private mutating func readKeptFields() {
        guard !operation.contentNames.isEmpty else { return }
        if operation.method != .get, !request.body.isEmpty {
            let isJSON =
                switch request.contentType {
                case "application/json": true
                case FormURLEncoded.mediaType: false
                // Kakao's documentation does not name the type of a body.
                default: request.body.first == UInt8(ascii: "{")
                }
            if isJSON {
                parameters.keep(json: request.body)
            } else {
                parameters.keep(form: request.body[...])
            }
        }
        if parameters.values.isEmpty { parameters.keep(form: request.head.query) }
    }

    private mutating func readBody() throws {
        if case .files(let files) = operation.body {
            guard files.mediaTypes.contains(where: { $0 == request.contentType }) else {
                throw Self.unsupportedType(files.mediaTypes, files.description)
            }
            return
        }
        if case .media(let types, let description, _, let isChecked) = operation.body {
            guard !isChecked || types.contains(where: { $0 == request.contentType }) else {
                throw Self.unsupportedType(types, description)
            }
            return
        }
        // Without a body there are no fields. The error then names the missing field, and not the media type.
        guard !request.body.isEmpty else { return }
        switch request.contentType {
        case "application/json": try parameters.add(json: request.body, operation.allowedInBody)
        case FormURLEncoded.mediaType:
            guard !Self.isJSONObject(request.body) else {
                throw Problem(
                    of: .unsupportedMediaType,
                    """
                    The body is JSON, but its Content-Type is \(FormURLEncoded.mediaType), which curl -d sends. Add the header \
                    Content-Type: application/json.
                    """
                )
            }
            try parameters.add(FormURLEncoded.parse(request.body[...]), operation.allowedInBody)
        default: throw Self.unsupportedType(["application/json", FormURLEncoded.mediaType])
        }
    }

    /// Returns whether a body is a JSON object. No form begins as one, as far as its names are those of fields.
    private static func isJSONObject(_ body: [UInt8]) -> Bool {
        let first = body.first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        return first == UInt8(ascii: "{") && (try? JSONValue(parsing: body))?.object != nil
    }

    private static func unsupportedType(_ types: [String], _ description: String? = nil) -> Problem {
        let detail = "Unsupported Content-Type. Allowed: \(types.joined(separator: ", "))."
        return Problem(of: .unsupportedMediaType, description.map { "\(detail) \($0)" } ?? detail)
    }

    /// Adds the fields of a form that the handler reads itself.
    ///
    /// - Throws: ``Problem`` 400 for a field that is unknown or given twice.
    mutating func add(_ fields: [(name: String, value: String)]) throws {
        try parameters.add(fields, operation.allowedInBody)
    }

    /// The authenticated caller.
    package var caller: Caller { request.principal as? Caller ?? .anyone }

    /// Returns the value of a declared field.
    ///
    /// - Throws: ``Problem`` 400 for a missing or invalid value.
    @inlinable
    package subscript<Value>(_ field: Field<Value>) -> Value {
        get throws { try field.value(of: parameter(field.name, in: field.place)) }
    }

    /// Returns the value of a field that names an object in the path.
    ///
    /// - Parameter problem: The problem of an unknown object, which is also that of an invalid value, since no object can have it.
    package func identifier<Value>(
        _ field: Field<Value>,
        orThrow problem: @autoclosure () -> Problem
    ) throws -> Value {
        do {
            return try self[field]
        } catch {
            throw problem()
        }
    }

    /// Returns whether the request has a field.
    package func has<Value>(_ field: Field<Value>) -> Bool {
        parameter(field.name, in: field.place) != nil
    }

    /// Returns the fields of a group without their prefix, in the order of the request.
    package subscript(_ group: FieldGroup) -> [(name: String, value: String)] {
        record(group.name)
        return parameters.values.members.compactMap { name, value in
            name.hasPrefix(group.prefix) ? (String(name.dropFirst(group.prefix.count)), value.anyText) : nil
        }
    }

    /// All fields of the query and the body, for an operation whose fields follow from another declaration.
    package var fields: JSONObject {
        for name in operation.contentNames { record(name) }
        return parameters.values
    }

    /// The fields that the operation does not declare but keeps, in the order of the request.
    package var undeclared: LazyFilterSequence<[(name: String, value: JSONValue)]> {
        parameters.values.members.lazy.filter { [operation] in !operation.contentNames.contains($0.name) }
    }

    /// Whether a field of a call from Kakao could not be read, or was given twice.
    package var isMalformed: Bool { parameters.isMalformed }

    /// Returns whether a field of a call from Kakao was given twice. Then it has no value, since neither can be believed.
    package func isRepeated(_ name: String) -> Bool { parameters.repeatedNames.contains(name) }

    /// The names of fields that were dropped because the operation does not declare them.
    var ignoredNames: [String] { parameters.ignoredNames }

    /// Returns the value of a declared field; `nil` if it is absent.
    @usableFromInline
    func parameter(_ name: String, in place: FieldPlace) -> JSONValue? {
        record(name)
        switch place {
        case .queryOrBody: return parameters.values[name]
        case .path: return .string(request.pathParameter(name))
        case .header(let header): return request[header].map { .string($0) }
        }
    }

    /// Checks in debug builds that the operation declares a field, and records that it was read.
    private func record(_ name: String) {
        #if DEBUG
        precondition(operation.fieldNames.contains(name), "\(operation.id) does not declare \(name)")
        FieldReads.record(name, of: operation)
        #endif
    }
}
