import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import Identity
import JSON
import KakaoRelay
import KakaoSandbox
import Net
import Pushes
import Schemas
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Server
@testable import Settings

/// Tests of what follows from the declarations of operations: the OpenAPI document, and the checks of fields.
@Suite(.timeLimit(.minutes(5))) struct OperationTests {
    private static let operations = routeCollections.flatMap { $0.declarations }

    @Test("Each operation has a name, a method and a path of its own")
    func names() {
        let names = Self.operations.map(\.id)
        #expect(Set(names).count == names.count)
        let places = Self.operations.map { "\($0.method) \($0.path)" }
        #expect(Set(places).count == places.count)
    }

    @Test("docs/openapi.json is the document of this version: push-server openapi > docs/openapi.json")
    func document() throws {
        let stored = try String(contentsOfFile: "\(TestFiles.repository)/docs/openapi.json", encoding: .utf8)
        #expect(stored == OpenAPIDocument.service.json.indented())
    }

    @Test("docs/errors.md lists each problem that an operation declares, with its status")
    func problems() throws {
        let page = try String(contentsOfFile: "\(TestFiles.repository)/docs/errors.md", encoding: .utf8)
        let rows = page.split(separator: "\n")
        for kind in Set(Self.operations.flatMap(\.problems)) {
            let isListed = rows.contains { $0.hasPrefix("| \(kind.status.code)") && $0.contains("`\(kind.name)`") }
            #expect(isListed, "\(kind.status.code) \(kind.name)")
        }
    }

    @Test("docs/threat-model.md lists each operation that needs no credential, with its limit")
    func openOperations() throws {
        let page = try String(contentsOfFile: "\(TestFiles.repository)/docs/threat-model.md", encoding: .utf8)
        let listed = page.split(separator: "\n").filter { $0.hasPrefix("| `GET ") || $0.hasPrefix("| `POST ") }
        let declared = Self.operations.compactMap { operation -> String? in
            let limit: String? =
                switch operation.access.openLimit {
                case nil: nil
                case .constantCost: "The cost of a request is constant."
                case .limited(let sentence): sentence
                }
            return limit.map { "| `\(operation.method) \(operation.path)` | \($0) |" }
        }
        #expect(listed.map(String.init).sorted() == declared.sorted())
    }

    @Test("Only a handler that responds at once can have a constant cost")
    func constantCost() {
        typealias Handler = Operation<Int>.Handler
        let immediate = Handler.immediate { _ in { _ in Response(.ok) } }
        let task = Handler.task { _ in { _ in Response(.ok) } }
        #expect(immediate.canHave(.constantCost))
        #expect(!task.canHave(.constantCost))
        #expect(task.canHave(.limited("By address.")))
        #expect(task.canHave(nil))
    }

    @Test("A user's requests are limited at each operation that is open to users")
    func userLimits() async throws {
        try await withService {
            $0.keepAccounts()
            $0.relay.relaysStory = true
            $0.identity.requestsPerMinutePerUser = 1
        } _: { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            var app = service.api.with("Bearer \(token)")
            app.checksContract = false
            #expect(try await app.get("/v1/push/tokens").status == 200)
            for operation in Self.operations {
                switch operation.access {
                case .device, .user, .kakaoUser:
                    let response = try await SampleRequest(operation).send(to: app, with: [])
                    #expect(response.status == 429, "\(operation.id): \(response.status)")
                case .anyone, .operatorPort, .operator, .operatorWithAny, .monitoring, .appKey, .kakao, .kakaoAddress:
                    break
                }
            }
        }
    }

    @Test("GET /openapi.json returns the document, without a key, and 304 if it is known")
    func served() async throws {
        try await withSharedService { service in
            var api = service.api.with(nil)
            let answer = try await api.get("/openapi.json")
            #expect(answer.json == OpenAPIDocument.service.json)
            let tag = try #require(answer.headerFields[.eTag])
            for known in [tag, "W/\(tag)", "\"other\", \(tag)", "*"] {
                api.headerFields[.ifNoneMatch] = known
                let repeated = try await api.get("/openapi.json")
                #expect(repeated.status == 304)
                #expect(repeated.body.isEmpty)
                #expect(repeated.headerFields[.eTag] == tag)
            }
            api.headerFields[.ifNoneMatch] = "\"other\""
            #expect(try await api.get("/openapi.json").status == 200)
        }
    }

    @Test("Each declared field is read by its handler")
    func reads() async throws {
        try await withService {
            $0.keepAccounts()
            $0.kakao.appID = 1
            $0.kakao.makesAppKeyCalls = true
            $0.kakao.kaHeader = "sdk/2.27.3"
            $0.relay.relaysStory = true
            $0.identity.acceptsKakaoAccessTokens = true
            $0.pushes.inboxDays = 1
        } _: { service in
            let app = service.api.with("Bearer \(try #require(service.kakao.sandbox.accessToken(of: 7, appID: 1)))")
            for operation in Self.operations {
                let caller = operation.access == .user ? app : service.api
                let sample = SampleRequest(operation)
                for fields in [nil] + sample.optionalNames.map({ [$0] }) {
                    _ = try await sample.send(to: caller, with: fields.map { Set($0) })
                }
                #expect(FieldReads.unread(of: operation).isEmpty, "\(operation.id)")
            }
        }
    }

    @Test("Beside a port for operators, the public port knows no operation that only operators may call")
    func publicPort() async throws {
        try await withService {
            $0.keepAccounts()
            $0.kakao.appID = 1
            $0.kakao.makesAppKeyCalls = true
            $0.kakao.kaHeader = "sdk/2.27.3"
            $0.relay.relaysStory = true
            $0.operatorPort = 0
        } _: { service in
            var api = TestClient(url: service.server.url, authorization: nil)
            api.checksContract = false
            for operation in Self.operations {
                let response = try await SampleRequest(operation).send(to: api, with: [])
                let isUnknown =
                    response.status == 405
                    || response.status == 404
                        && response.json?["detail"]?.string?.hasPrefix("There is nothing at this path.") == true
                switch operation.access {
                case .anyone, .device, .user, .kakaoUser, .appKey, .kakao, .kakaoAddress:
                    #expect(!isUnknown, "\(operation.id): \(response.text)")
                case .operatorPort, .operator, .operatorWithAny, .monitoring:
                    #expect(isUnknown, "\(operation.id): \(response.text)")
                }
            }
        }
    }

    @Test("An unknown field is rejected with the allowed ones and the one that was probably meant")
    func unknownFields() async throws {
        try await withSharedService { service in
            let answer = try await service.api.get("/v1/pushes", ["stat": "done"])
            #expect(answer.status == 400)
            #expect(answer.field == "stat")
            let allowed = "created_by, cursor, limit, name, since, state, unfinished, until"
            let detail = "Unknown field `stat`. Allowed: \(allowed). Did you mean `state`?"
            #expect(answer.json?["detail"]?.string == detail)
            #expect(
                try await service.api.get("/v1/status", ["x": "1"]).json?["detail"]
                    == "Unknown field `x`. No field is allowed in the query."
            )

            let message: JSONValue = ["for_gcm": [:]]
            let push: JSONValue = [
                "name": "unknown field", "audience": ["everyone": true], "message": message, "dryrun": true,
            ]
            let rejected = try await service.api.post("/v1/pushes", json: push)
            #expect(rejected.field == "dryrun")
            #expect(rejected.json?["detail"]?.string?.hasSuffix("Did you mean `dry_run`?") == true)
            #expect(try await service.api.post("/v1/pushes?dry_run=true", json: push).field == "dry_run")
            #expect(try await service.database.count("pushes WHERE name = 'unknown field'") == 0)
            // An operation without a body accepts an empty object, but no field.
            let path = "/v1/pushes/01926f3e-7a5b-7c3d-9e1f-0a2b3c4d5e6f/pause"
            #expect(try await service.api.post(path, json: [:]).status == 404)
            #expect(try await service.api.post(path, json: ["uncertain": true]).field == "uncertain")
        }
    }

    @Test("Operations of Kakao's API ignore unknown fields and name them, and read fields in the query of a POST")
    func ignoredFields() async throws {
        try await withService { service in
            let answer = try await service.api.post(
                "/v1/push/register?uuid=1",
                form: [
                    "device_id": "phone", "push_type": "gcm", "push_token": "token", "app_ver": "1",
                    "a,\r\nX-Injected: 1": "", "한": "",
                ]
            )
            #expect(answer.status == 200)
            let name = try #require(HTTPField.Name("X-Ignored-Parameters"))
            #expect(answer.headerFields[name] == "app_ver, a???X-Injected:?1, ?")
            #expect(answer.headerFields.count { $0.name.rawName == "X-Injected" } == 0)
            #expect(try await service.api.register(1, "token").headerFields[name] == nil)
            let misspelt = try await service.api.post("/v1/push/register", form: ["uuid": "1", "push_tokn": "token"])
            #expect(misspelt.status == 400)
            #expect(misspelt.headerFields[name] == "push_tokn")
            let many = (0..<5000).map { "\"\($0)\":0" }.joined(separator: ",")
            let crowded = try await service.api.post(
                "/v1/push/tokens",
                Array("{\"uuid\":1,\(many)}".utf8),
                type: "application/json"
            )
            #expect(crowded.headerFields[name]?.split(separator: ",").count == 20)
        }
    }

    @Test(
        "The fields in the body of a GET are named as ignored, even those that the operation has in its query",
        arguments: [
            (["-d", "uuid=2", "-d", "page=1"], "uuid, page"),
            (["-H", "Content-Type: application/json", "-d", #"{"uuids":["2"],"page":{}}"#], "uuids, page"),
            (["-H", "Content-Type: application/json", "-d", "[1]"], ""),
            (["-H", "Content-Type: text/plain", "-d", "uuid=2"], ""),
        ]
    )
    func bodyOfGet(body: [String], names: String) async throws {
        try await withSharedService { service in
            let answer = try await curl(["-X", "GET", "\(service.api.url)/v1/push/tokens?uuid=1"] + body)
            #expect(answer.status == "200")
            let header = "x-ignored-parameters: "
            let given = answer.head.split(separator: "\r\n").first { $0.lowercased().hasPrefix(header) }
            #expect(given.map { String($0.dropFirst(header.count)) } ?? "" == names)
        }
    }

    @Test("A compressed body is rejected with 415 before it is read, except that of a call from Kakao")
    func encodedBody() async throws {
        try await withService { service in
            let url = service.api.url
            let gzip = ["-H", "Content-Encoding: gzip"]
            for (path, mediaType) in [
                ("/v1/push/register", "application/x-www-form-urlencoded"), ("/v1/pushes", "application/json"),
                ("/v1/devices/import", "application/x-ndjson"),
                ("/v1/user/logout", "application/x-www-form-urlencoded"),
            ] {
                let answer = try await curl(gzip + ["\(url)\(path)", "-H", "Content-Type: \(mediaType)", "-d", "x"])
                #expect(answer.status == "415")
                #expect(answer.head.lowercased().contains("\r\naccept-encoding: identity"))
                let type = try JSONValue(parsing: answer.body)["type"]?.string
                #expect(type?.hasSuffix("unsupported-media-type") == true)
            }
            let plain = ["-H", "Content-Encoding: identity", "\(url)/v1/push/tokens", "-d", "uuid=1"]
            #expect(try await curl(plain).status == "200")
            // Kakao does not repeat a call.
            var kakao = service.api.with("KakaoAK \(Keys.admin)")
            kakao.headerFields[.contentEncoding] = "gzip"
            #expect(try await kakao.post("/kakao/link/callback", form: ["CHAT_TYPE": "DirectChat"]).status == 200)
        }
    }

    @Test("Sends with one Idempotency-Key and different queries are different requests")
    func queryOfSend() async throws {
        try await withService { service in
            var api = service.api
            api.headerFields[try #require(HTTPField.Name("Idempotency-Key"))] = "key"
            let message: KeyValuePairs = ["push_message": #"{"for_gcm":{}}"#]
            #expect(try await api.post("/v1/push/send?uuids=[1]", form: message).status == 200)
            #expect(try await api.post("/v1/push/send?uuids=[1]", form: message).status == 200)
            #expect(try await api.post("/v1/push/send?uuids=[2]", form: message).status == 422)
            #expect(try await service.database.count("pushes") == 1)
        }
    }

    @Test("An argument of a Link callback may have the name of a header field, and its query is ignored in a POST")
    func argumentNames() async throws {
        try await withService { service in
            let kakao = service.api.with("KakaoAK \(Keys.admin)")
            let form: KeyValuePairs = [
                "CHAT_TYPE": "DirectChat", "HASH_CHAT_ID": "room", "X-Kakao-Resource-ID": "argument",
            ]
            #expect(try await kakao.post("/kakao/link/callback?CHAT_TYPE=x&src=%zz", form: form).status == 200)
            #expect(try await kakao.post("/kakao/link/callback", form: form).status == 200)
            let items = try await service.api.get("/v1/link/callbacks").json?["items"]?.array ?? []
            #expect(items.count == 2)
            for item in items {
                #expect(item["resource_id"] == .null)
                #expect(item["args"] == ["X-Kakao-Resource-ID": "argument"])
            }
        }
    }

    @Test("A probe of a load balancer may have a query")
    func probes() async throws {
        try await withSharedService { service in
            for path in ["/healthz?ts=1", "/healthz?%zz"] {
                let answer = try await service.api.get(path)
                #expect(answer.status == 200)
            }
            let answer = try await service.api.get("/readyz?ts=1")
            #expect(answer.isReadyOrLate)
        }
    }
}

/// A request to an operation, made of its declaration.
private struct SampleRequest {
    private let operation: OperationDeclaration

    init(_ operation: OperationDeclaration) {
        self.operation = operation
    }

    private var bodyFields: [any FieldDeclaration] {
        switch operation.body {
        case .fields(let fields): fields
        case .files(let files): files.fields
        case .none, .media: []
        }
    }

    /// The names of fields that a request may lack.
    var optionalNames: [String] {
        Array(Set((operation.query + operation.headers + bodyFields).filter { !$0.isRequired }.map(\.name))).sorted()
    }

    /// Sends the required fields and `names` of the optional ones; all if `names` is `nil`.
    func send(to api: TestClient, with names: Set<String>?) async throws -> HTTPClientResponse {
        func isSent(_ field: any FieldDeclaration) -> Bool { field.isRequired || names?.contains(field.name) != false }
        var path = operation.path.replacing("{secret}", with: Keys.feedback)
        for field in operation.pathFields { path = path.replacing("{\(field.name)}", with: text(field)) }
        var query = FormBody()
        for field in operation.query.filter(isSent) { query.append(name(field), text(field)) }
        if !query.bytes.isEmpty { path += "?" + String(decoding: query.bytes, as: UTF8.self) }
        var api = operation.access == .kakao ? api.with("KakaoAK \(Keys.admin)") : api
        for field in operation.headers.filter(isSent) {
            if let name = HTTPField.Name(field.name) { api.headerFields[name] = text(field) }
        }
        switch operation.body {
        case .media(let types, _, _, _):
            let body = Array("1\n".utf8)
            return operation.method == .put
                ? try await api.put(path, body, type: types[0]) : try await api.post(path, body, type: types[0])
        case .files(let files):
            let fields = files.fields.filter(isSent).map { ($0.name, text($0)) }
            let form = MultipartBody(fields: fields, files: [(files.part, TestImage.png())])
            return try await api.post(path, form.bytes, type: form.type)
        case .none, .fields:
            var body = JSONObject()
            let queryNames = operation.query.map(\.name)
            for field in bodyFields.filter(isSent) where !queryNames.contains(field.name) {
                body[field.name] = value(field)
            }
            let json = JSONValue.object(body).bytes()
            switch operation.method {
            case .get: return try await api.get(path)
            case .put: return try await api.put(path, json, type: "application/json")
            case .delete: return try await api.delete(path)
            default: return try await api.post(path, json, type: "application/json")
            }
        }
    }

    /// The name of a field, or of one in a group.
    private func name(_ field: any FieldDeclaration) -> String { field.name.replacing("*", with: "a") }

    private func text(_ field: any FieldDeclaration) -> String {
        let value = value(field)
        return value.string ?? value.description
    }

    private func value(_ field: any FieldDeclaration) -> JSONValue {
        switch field.name {
        case "message": return ["for_gcm": [:]]
        case "app_id": return "1"
        default: return Self.value(of: .object(field.schema.object), field.schema.components)
        }
    }

    /// Returns a value that a schema allows.
    private static func value(of schema: JSONValue, _ components: [String: JSONObject]) -> JSONValue {
        if let name = schema["$ref"]?.string?.split(separator: "/").last, let schema = components[String(name)] {
            return value(of: .object(schema), components)
        }
        if let first = (schema["oneOf"] ?? schema["anyOf"])?[0] { return value(of: first, components) }
        if let value = schema["const"] ?? schema["enum"]?[0] { return value }
        switch (schema["type"]?.string ?? schema["type"]?[0]?.string, schema["format"]?.string) {
        case ("integer", _): return schema["minimum"] ?? 1
        case ("boolean", _): return true
        case ("array", _): return [value(of: schema["items"] ?? [:], components)]
        case ("object", _):
            var object = JSONObject()
            for (name, member) in schema["properties"]?.object?.members ?? [] {
                object[name] = value(of: member, components)
            }
            return .object(object)
        case (_, "uuid"): return "01926f3e-7a5b-7c3d-9e1f-0a2b3c4d5e6f"
        case (_, "date-time"): return "2999-01-01T00:00:00Z"
        default: return "1"
        }
    }
}
