import HTTPServer
import HTTPTypes
package import JSON
import Net
import Schemas

/// The OpenAPI 3.1 document of a service: <https://spec.openapis.org/oas/v3.1.1>.
package struct OpenAPIDocument: Sendable {
    package let json: JSONValue
    /// The ids of the operations that leave records in the audit log, sorted.
    package let recordedOperations: [String]

    /// - Parameters:
    ///   - title: The name of the service.
    ///   - version: Its version.
    ///   - description: Conventions that hold for all operations.
    ///   - collections: All operations. Those that belong together are shown together, in this order.
    package init(title: String, version: String, description: String, _ collections: [any RouteCollection.Type]) {
        recordedOperations = collections.flatMap { $0.declarations }.filter(\.isRecorded).map(\.id).sorted()
        var paths = JSONObject()
        var shared = SharedComponents()
        var tags: [JSONValue] = []
        for collection in collections {
            tags.append(["name": .string(collection.title)])
            for operation in collection.declarations {
                var path = paths[operation.path]?.object ?? JSONObject()
                path[operation.method.rawValue.lowercased()] = .object(
                    operation.document(tag: collection.title, collecting: &shared)
                )
                paths[operation.path] = .object(path)
            }
        }
        json = [
            "openapi": "3.1.0",
            "info": [
                "title": .string(title), "version": .string(version), "description": .string(description),
            ],
            "tags": .array(tags),
            "paths": .object(paths),
            "components": [
                "schemas": SharedComponents.json(shared.schemas),
                "responses": SharedComponents.json(shared.responses),
                "securitySchemes": .object(SecurityScheme.document),
            ],
        ]
    }
}

extension RouteCollection {
    /// The declarations of the operations.
    package static var declarations: [OperationDeclaration] { operations.map(\.declaration) }
}

/// The parts of the document that several operations refer to, by their names.
private struct SharedComponents {
    private(set) var schemas = Problem.schema.components
    private(set) var responses: [String: JSONObject] = [:]

    /// Returns a schema as an operation contains it, and adds the named schemas that it refers to.
    mutating func object(_ schema: Schema) -> JSONValue {
        schemas.merge(schema.components) { first, _ in first }
        return .object(schema.object)
    }

    /// Adds the response with one of some problems, and returns the reference to it.
    mutating func reference(to response: ProblemResponse) -> JSONValue {
        let object = response.object
        precondition(responses[response.name] ?? object == object, "Two responses have the name \(response.name).")
        responses[response.name] = object
        return ["$ref": .string("#/components/responses/\(response.name)")]
    }

    /// Returns components sorted by name.
    static func json(_ components: [String: JSONObject]) -> JSONValue {
        .object(components.sorted { $0.key < $1.key }.reduce(into: JSONObject()) { $0[$1.key] = .object($1.value) })
    }
}

/// The ways to authenticate.
private enum SecurityScheme: String, CaseIterable {
    case operatorKey
    case session
    case userToken
    case kakaoToken
    case appKey
    case backendKey
    case adminKey

    var json: JSONValue {
        switch self {
        case .operatorKey:
            [
                "type": "http", "scheme": "bearer",
                "description": "A key of an operator or a backend. Kakao's form `KakaoAK KEY` is accepted too.",
            ]
        case .session:
            [
                "type": "apiKey", "in": "cookie", "name": "__Host-push-session",
                "description": "The session of an operator who has signed in to the page with `POST /v1/session`.",
            ]
        case .userToken:
            [
                "type": "http", "scheme": "bearer",
                "description":
                    "A Kakao Login access token, a Kakao ID token or a JWT of the service's backend: gives access to the user's own devices.",
            ]
        case .kakaoToken:
            [
                "type": "http", "scheme": "bearer",
                "description": "An access token of Kakao Login: gives access to calls for the user.",
            ]
        case .backendKey:
            [
                "type": "apiKey", "in": "header", "name": "X-Operator-Key",
                "description":
                    "A key with the scope `user-calls` beside a user's token, of a backend that sends the requests of many users: its address is not limited.",
            ]
        case .appKey:
            [
                "type": "apiKey", "in": "header", "name": "Authorization",
                "description":
                    "`KakaoAK APP_KEY` with the app's native app key or JavaScript key and the header `KA`, as Kakao's SDKs send it.",
            ]
        case .adminKey:
            [
                "type": "apiKey", "in": "header", "name": "Authorization",
                "description": "`KakaoAK ADMIN_KEY`, as Kakao's servers send it.",
            ]
        }
    }

    static var document: JSONObject {
        var object = JSONObject()
        for scheme in allCases { object[scheme.rawValue] = scheme.json }
        return object
    }
}

extension Access {
    /// The security requirements, one of which a request must meet; empty if there are none.
    fileprivate var requirements: [JSONValue] {
        func requirement(_ scheme: SecurityScheme, _ scopes: [Scope] = []) -> JSONValue {
            .object([scheme.rawValue: .array(scopes.map { .string($0.rawValue) })])
        }
        /// The requirements of an operation for operators: a key, or the session of one.
        func `operator`(_ scopes: [Scope]) -> [JSONValue] {
            [requirement(.operatorKey, scopes), requirement(.session, scopes)]
        }
        /// The requirements of an operation for users: a token, alone or beside the key of a backend.
        func user(_ scheme: SecurityScheme) -> [JSONValue] {
            let key: JSONValue = .array([.string(Scope.userCalls.rawValue)])
            let both: JSONObject = [scheme.rawValue: [], SecurityScheme.backendKey.rawValue: key]
            return [requirement(scheme), .object(both)]
        }
        return switch self {
        case .anyone, .operatorPort, .kakaoAddress: []
        case .operator(let scopes): `operator`(scopes)
        // An operation for any of all scopes needs none.
        case .operatorWithAny(Scope.allCases): `operator`([])
        case .operatorWithAny(let scopes): scopes.flatMap { `operator`([$0]) }
        case .monitoring: `operator`([.read])
        case .device: `operator`([.devices]) + user(.userToken)
        case .user: user(.userToken)
        case .kakaoUser(let scope, _): `operator`([scope]) + user(.kakaoToken)
        case .appKey(let scope): `operator`([scope]) + [requirement(.appKey)]
        case .kakao: [requirement(.adminKey)]
        }
    }
}

extension OperationDeclaration {
    /// Returns the operation as the document describes it, and adds the components that it refers to.
    fileprivate func document(tag: String, collecting shared: inout SharedComponents) -> JSONObject {
        func object(_ schema: Schema) -> JSONValue { shared.object(schema) }
        var parameters: [JSONValue] = []
        for (place, fields) in [("path", pathFields), ("query", query), ("header", headers)] {
            for field in fields {
                var parameter: JSONObject = [
                    "name": .string(field.name), "in": .string(place), "description": .string(field.description),
                ]
                if field.isRequired { parameter["required"] = true }
                if field is FieldGroup {
                    parameter["style"] = "form"
                    parameter["explode"] = true
                    parameter["schema"] = object(field.schema)
                } else if field.schema.isStructured {
                    // As in Kakao's API, an array is a JSON text.
                    parameter["content"] = ["application/json": ["schema": object(field.schema)]]
                } else {
                    parameter["schema"] = object(field.schema)
                }
                parameters.append(.object(parameter))
            }
        }
        if access == .kakaoAddress {
            parameters.append([
                "name": "secret", "in": "path", "required": true, "description": "The secret that authenticates Kakao.",
                "schema": ["type": "string"],
            ])
        }
        var operation: JSONObject = [
            "operationId": .string(id), "tags": [.string(tag)], "summary": .string(summary),
            "security": .array(access.requirements),
        ]
        if !parameters.isEmpty { operation["parameters"] = .array(parameters) }
        switch body {
        case .none: break
        case .fields(let fields):
            let name = id.prefix(1).uppercased() + id.dropFirst()
            let ignoresOthers = unknownFields != .rejected
            let json = Schema.object(
                fields.map { ($0.name, $0.isRequired ? $0.schema : $0.schema.nullable, $0.isRequired) },
                allowingOthers: ignoresOthers
            )
            let form = Schema.object(fields.map { ($0.name, $0.schema, $0.isRequired) }, allowingOthers: ignoresOthers)
            var encoding = JSONObject()
            for field in fields where field.schema.isStructured {
                encoding[field.name] = ["contentType": "application/json"]
            }
            var formContent: JSONObject = ["schema": object(form.named("\(name)Form"))]
            if !encoding.isEmpty { formContent["encoding"] = .object(encoding) }
            operation["requestBody"] = [
                "required": .bool(fields.contains(where: \.isRequired)),
                "content": [
                    "application/json": ["schema": object(json.named("\(name)Request"))],
                    FormURLEncoded.mediaType: .object(formContent),
                ],
            ]
        case .files(let files):
            operation["requestBody"] = [
                "required": true, "description": .string(files.description),
                "content": .object(
                    files.content(
                        allowingOthers: unknownFields != .rejected,
                        named: "\(id.prefix(1).uppercased() + id.dropFirst())Form",
                        object
                    )
                ),
            ]
        case .media(let types, let description, let schema, _):
            var content = JSONObject()
            for type in types { content[type] = ["schema": object(schema)] }
            operation["requestBody"] = [
                "required": true, "description": .string(description), "content": .object(content),
            ]
        }
        operation["responses"] = .object(responses(collecting: &shared))
        return operation
    }

    private func responses(collecting shared: inout SharedComponents) -> JSONObject {
        var responses = JSONObject()
        for answer in answers {
            var response: JSONObject = ["description": .string(answer.description)]
            var headers = JSONObject()
            for header in answer.headers + (unknownFields == .ignored ? [.ignoredParameters] : []) {
                headers[header.name] = ["description": .string(header.description), "schema": ["type": "string"]]
            }
            if !headers.isEmpty { response["headers"] = .object(headers) }
            var content = JSONObject()
            for (type, schema) in answer.contents { content[type] = ["schema": shared.object(schema)] }
            if !content.isEmpty { response["content"] = .object(content) }
            responses[String(answer.status.code)] = .object(response)
        }
        for problems in ProblemResponse.all(of: self) {
            responses[problems.status] =
                (responses[problems.status]?.object).map { .object(problems.added(to: $0)) }
                ?? shared.reference(to: problems)
        }
        return responses
    }
}
