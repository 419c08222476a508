import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Net
import ServiceTesting
import TestSupport
import Testing

/// Tests of invalid input. The response is 400 with the name of the field, nothing is stored, and Kakao is not called.
@Suite(.timeLimit(.minutes(5))) struct BadInputTests {
    private static let limit = Int64.max
    /// A server of this suite's own: nothing but these requests can fill its tables.
    private static let server = SharedService()
    private static let wrongIDs: [String] = [
        "0", "-1", "9223372036854775808", "18446744073709551617", "1.0", "1e3", "01", "+1", "-0", "", " 1", "1 ",
        "0x1", "１", "null", "true", "[1]",
    ]
    /// Invalid user ids as JSON, both numbers and texts.
    private static let wrongJSONIDs: [String] = [
        "0", "-1", "9223372036854775808", "1.0", "1e3", "1E0", "\"01\"", "\"1.0\"", "\"-1\"", "\"0\"", "\"\"", "null",
        "true", "[1]", "{}", "\"9223372036854775808\"",
    ]

    /// A request and the field that its response must name.
    private struct Case {
        let path: String
        let body: String
        var type = "application/json"
        let field: String?
        var status = 400
    }

    /// Sends every request and expects that each is rejected, that nothing is stored and that Kakao is not called.
    private static func refuses(_ cases: [Case]) async throws {
        try await server.with { service in
            for item in cases {
                let answer = try await service.api.post(item.path, Array(item.body.utf8), type: item.type)
                let comment: Comment = "\(item.path) \(item.body.prefix(200)): \(answer.text.prefix(300))"
                #expect(answer.status == item.status, comment)
                #expect(answer.headerFields[.contentType] == "application/problem+json", comment)
                #expect(answer.json?["status"]?.integer == Int64(item.status), comment)
                if let field = item.field {
                    #expect(answer.field == field, comment)
                    #expect(answer.json?["detail"]?.string?.contains(field) == true, comment)
                    #expect(answer.json?["allowed"]?.string?.isEmpty == false, comment)
                    #expect(answer.json?["type"] == "urn:kakao-push-server:error:invalid-field", comment)
                    #expect(answer.json?["code"] == -2, comment)
                }
                // Kakao has words of its own for a missing parameter.
                let missing = answer.field.map { "The Parameter [\($0)] cannot be null." }
                let message = answer.json?["msg"]?.string
                #expect(message == answer.json?["detail"]?.string || message == missing, comment)
            }
            for table in ["devices", "pushes", "push_batches", "link_callbacks"] {
                #expect(try await service.database.count(table) == 0)
            }
            #expect(service.kakao.calls.isEmpty)
        }
    }

    /// Returns a JSON object as text, with one member replaced by `value`, or omitted if that is `nil`.
    private static func object(_ members: KeyValuePairs<String, String>, _ name: String, _ value: String?) -> String {
        var parts: [String] = []
        for (member, text) in members {
            if member != name {
                parts.append("\"\(member)\":\(text)")
            } else if let value {
                parts.append("\"\(member)\":\(value)")
            }
        }
        if let value, !members.contains(where: { $0.key == name }) { parts.append("\"\(name)\":\(value)") }
        return "{\(parts.joined(separator: ","))}"
    }

    private static let registration: KeyValuePairs = [
        "uuid": "1", "device_id": #""phone""#, "push_type": #""gcm""#, "push_token": #""token""#,
    ]
    private static let send: KeyValuePairs = ["uuids": "[1]", "push_message": "{}"]

    @Test("Every endpoint rejects an invalid user id, in JSON and in a form")
    func userIDs() async throws {
        var cases: [Case] = []
        for id in wrongIDsAsForm {
            let form = "uuid=\(id)&device_id=phone&push_type=gcm&push_token=token"
            for call in ["register", "deregister", "tokens"] {
                cases.append(
                    Case(path: "/v1/push/\(call)", body: form, type: "application/x-www-form-urlencoded", field: "uuid")
                )
            }
        }
        for id in Self.wrongJSONIDs {
            let body = Self.object(Self.registration, "uuid", id)
            cases.append(Case(path: "/v1/push/register", body: body, field: "uuid"))
            cases.append(Case(path: "/v2/push/deregister", body: body.replacingType("fcm"), field: "uuid"))
            if id != "null" { cases.append(Case(path: "/v1/push/tokens", body: "{\"uuid\":\(id)}", field: "uuid")) }
            for call in ["send", "tokens"] {
                let body = #"{"uuids":[1,\#(id)],"push_message":{}}"#
                cases.append(Case(path: "/v1/push/\(call)", body: body, field: "uuids"))
            }
        }
        try await Self.refuses(cases)
    }

    /// The invalid user ids, percent-encoded.
    private var wrongIDsAsForm: [String] {
        Self.wrongIDs.map { id in
            var form = FormBody()
            form.append("", id)
            return String(decoding: form.bytes.dropFirst(), as: UTF8.self)
        }
    }

    @Test("An invalid user id in the path or the query is rejected too")
    func userIDsElsewhere() async throws {
        try await Self.server.with { service in
            for id in wrongIDsAsForm where !id.isEmpty {
                for (path, field) in [
                    ("/v1/users/\(id)/devices", "user_id"), ("/v1/push/tokens?uuid=\(id)", "uuid"),
                    ("/v1/push/tokens?user_id=\(id)", "uuid"), ("/v1/devices?uuid=\(id)", "user_id"),
                ] {
                    let answer = try await service.api.get(path)
                    #expect(answer.status == 400)
                    #expect(answer.field == field, "\(path)")
                }
            }
            for (query, field) in [("", "uuid"), ("?uuid=1&uuids=[1]", "uuids"), ("?uuid=1&uuid=2", "uuid")] {
                #expect(try await service.api.get("/v1/push/tokens\(query)").field == field, "\(query)")
            }
        }
    }

    @Test("Lists of users that are empty, too long or not lists are rejected; a hundred users are accepted")
    func lists() async throws {
        let hundredAndOne = "[\((1...101).map(String.init).joined(separator: ","))]"
        var cases: [Case] = []
        for list in ["[]", hundredAndOne, "1", "{}", "\"1\"", "\"[1\"", "\"\"", "[[1]]", "[null]", "null", nil] {
            let body = Self.object(Self.send, "uuids", list)
            cases.append(Case(path: "/v1/push/send", body: body, field: "uuids"))
            cases.append(Case(path: "/v2/push/send", body: body, field: "uuids"))
            if let list, list != "null" {
                cases.append(Case(path: "/v1/push/tokens", body: "{\"uuids\":\(list)}", field: "uuids"))
            }
        }
        let form = "application/x-www-form-urlencoded"
        for list in ["", "1", "1,2", "[1,]", "[1", "(1)", "[1] [2]", "%5B1%5D%00"] {
            let body = "uuids=\(list)&push_message=%7B%7D"
            cases.append(Case(path: "/v1/push/send", body: body, type: form, field: "uuids"))
        }
        try await Self.refuses(cases)
        try await withService { service in
            let hundred = (1...100).map { Int64($0) }
            try await service.api.waitUntilDone(service.push(hundred, marker: "m"))
            #expect(service.kakao.sandbox.reached(marker: "m").users == 100)
        }
    }

    @Test("A push_message that is not an object is rejected")
    func messages() async throws {
        var cases: [Case] = []
        for message in ["[]", "1", "true", "\"text\"", "\"[]\"", "\"{\"", "\"\"", "null", nil] {
            let body = Self.object(Self.send, "push_message", message)
            cases.append(Case(path: "/v1/push/send", body: body, field: "push_message"))
        }
        for bypass in ["1", "\"yes\"", "\"on\"", "[]", "0"] {
            cases.append(
                Case(path: "/v1/push/send", body: Self.object(Self.send, "bypass", bypass), field: "bypass")
            )
        }
        let form = "application/x-www-form-urlencoded"
        for message in ["", "text", "%7B", "%7B%7D%7B%7D", "%7B%22a%22%3A1%2C%22a%22%3A2%7D"] {
            let body = "uuids=[1]&push_message=\(message)"
            cases.append(Case(path: "/v1/push/send", body: body, type: form, field: "push_message"))
        }
        try await Self.refuses(cases)
    }

    @Test("Missing, empty, too long, unknown or mistyped values in a registration are rejected")
    func registrations() async throws {
        var cases: [Case] = []
        func add(_ field: String, _ values: [String?]) {
            for value in values {
                let body = Self.object(Self.registration, field, value)
                cases.append(Case(path: "/v1/push/register", body: body, field: field))
            }
        }
        func text(_ length: Int) -> String { "\"\(String(repeating: "가", count: length))\"" }
        add("uuid", [nil])
        add("device_id", [nil, "null", "\"\"", text(65), "1", "[]", "{}", "true", #""a\u0000b""#, #""a\nb""#])
        add("push_type", [nil, "null", "\"\"", "\"fcm\"", "\"GCM\"", "\"apns \"", "1", "[\"gcm\"]"])
        add("push_token", [nil, "null", "\"\"", text(4097), "1", "[]", #""a\u007fb""#])
        add("locale", ["\"\"", text(36), "1"])
        add("timezone", ["\"\"", text(65), "false"])
        add("app_version", ["\"\"", text(65), "1.5"])
        let many = "[\((1...51).map { "\"\($0)\"" }.joined(separator: ","))]"
        add("tags", [many, "\"text\"", "{}", "1", "[1]", "[\"\"]", "[\(text(65))]", "[null]", "\"[\""])
        cases.append(
            Case(
                path: "/v2/push/register",
                body: Self.object(Self.registration, "push_type", "\"gcm\""),
                field: "push_type"
            )
        )
        for field in ["device_id", "push_type"] {
            let body = Self.object(Self.registration, field, nil)
            cases.append(Case(path: "/v1/push/deregister", body: body, field: field))
        }
        try await Self.refuses(cases)
    }

    @Test("Values of the maximum length are accepted")
    func longest() async throws {
        try await withService { service in
            let device = String(repeating: "가", count: 64)
            let token = String(repeating: "t", count: 4096)
            let answer = try await service.api.register(.max, token, device: device)
            #expect(answer.text == "30")
            #expect(try await service.kakao.tokens(of: .max) == ["\(device) gcm \(token)"])
        }
    }

    @Test("JSON that is sent as a form, as curl -d does, gets an answer that says so")
    func jsonAsForm() async throws {
        try await Self.server.with { service in
            for (path, body) in [
                ("/v1/pushes", #" {"audience":{"everyone":true},"message":{"for_gcm":{}}}"#),
                ("/v1/push/send", #"{"uuids":[1],"push_message":{}}"#), ("/v1/link/shares", "{}"),
            ] {
                let answer = try await service.api.post(
                    path,
                    Array(body.utf8),
                    type: "application/x-www-form-urlencoded"
                )
                #expect(answer.status == 415, "\(answer.text)")
                let detail = answer.json?["detail"]?.string ?? ""
                #expect(detail.contains("JSON") && detail.contains("Content-Type: application/json"), "\(detail)")
            }
            // A form whose first name begins with a brace.
            let form = try await service.api.post(
                "/v1/pushes",
                Array("{=1".utf8),
                type: "application/x-www-form-urlencoded"
            )
            #expect(form.status == 400 && form.field == "{", "\(form.text)")
        }
    }

    @Test("allowed has the values of a field, and detail the reason and the remedy")
    func allowedValues() async throws {
        try await Self.server.with { service in
            let named = try await service.api.post(
                "/v1/pushes",
                json: ["audience": ["audience": "nobody-stored-it"], "message": ["for_gcm": [:]]]
            )
            #expect(named.json?["allowed"] == "the name of a stored audience")
            #expect(named.json?["detail"]?.string?.contains("PUT /v1/audiences/{name}") == true)
            let broken = try await service.api.post("/v1/push/register", form: ["uuid": "1", "tags": "[1"])
            for answer in [named, broken] {
                #expect(
                    answer.status == 400 && answer.json?["allowed"]?.string?.contains(". ") == false,
                    "\(answer.text)"
                )
            }
            let both = try await service.api.get("/v1/push/tokens?uuid=1&user_id=1")
            #expect(both.field == "uuid" && both.json?["allowed"] == "a single value", "\(both.text)")
        }
    }

    @Test("The access log names the problem of an invalid request and its declared field, but nothing that was sent")
    func logged() async throws {
        try await withService { service in
            let cases: [(path: String, field: String?)] = [
                ("/v1/pushes?limit=private-text", "limit"), ("/v1/pushes?private-text=1", nil),
                ("/v1/link/callbacks?arg.private-text=1&arg.private-text=2", "arg.*"),
                ("/v1/push/tokens?uuid=1&user_id=private-text", "uuid"),
            ]
            for (path, field) in cases {
                let answer = try await service.api.get(path)
                #expect(answer.status == 400 && answer.problem == "invalid-field", "\(path) \(answer.text)")
                let name = try #require(HTTPField.Name("X-Request-Id"))
                let request = try #require(answer.headerFields[name])
                let line = await service.log.line { $0.metadata["request_id"] == request }
                #expect(line.metadata["problem"] == "invalid-field" && line.metadata["field"] == field, "\(line.text)")
            }
            #expect(!service.log.lines.contains { $0.text.contains("private-text") })
        }
    }

    @Test("A duplicate field is rejected, in a form and in JSON")
    func twice() async throws {
        let form = "application/x-www-form-urlencoded"
        try await Self.refuses([
            Case(
                path: "/v1/push/register",
                body: "uuid=1&device_id=a&push_type=gcm&push_token=t&uuid=2",
                type: form,
                field: "uuid"
            ),
            Case(path: "/v1/push/send", body: "uuids=[1]&uuids=[2]&push_message={}", type: form, field: "uuids"),
            Case(path: "/v1/push/register", body: #"{"uuid":1,"uuid":2}"#, field: nil),
        ])
    }

    @Test("A body that is not a JSON object is rejected")
    func notJSON() async throws {
        let bodies = [
            "", " ", "{", "[]", "1", "\"text\"", "null", "{\"uuid\":}", "{\"uuid\":1,}", "{'uuid':1}", "{\"uuid\":01}",
            "{} {}", "uuid=1", "\u{FEFF}{}", "{\"a\":\"\u{1}\"}", "{\"a\":\"\\ud800\"}",
            String(repeating: "[", count: 60_000), String(repeating: "{\"a\":", count: 10_000),
        ]
        try await Self.refuses(
            bodies.flatMap { body in
                ["/v1/push/register", "/v1/push/send", "/v1/push/tokens"].map {
                    Case(path: $0, body: body, field: nil)
                }
            }
        )
    }

    @Test("Invalid UTF-8 is rejected, in JSON, in a form, in a query and in a path")
    func notUTF8() async throws {
        try await Self.server.with { service in
            let all: [[UInt8]] = [[0xFF], [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xE2, 0x82]]
            for bad in all {
                let start = #"{"uuid":1,"push_type":"gcm","push_token":"t","device_id":""#
                let json = Array(start.utf8) + bad + Array("\"}".utf8)
                #expect(try await service.api.post("/v1/push/register", json, type: "application/json").status == 400)
                let form = Array("uuid=1&push_type=gcm&push_token=t&device_id=".utf8) + bad
                let type = "application/x-www-form-urlencoded"
                #expect(try await service.api.post("/v1/push/register", form, type: type).status == 400)
                let encoded = bad.map { "%" + String($0, radix: 16) }.joined()
                #expect(try await service.api.get("/v1/push/tokens?uuid=\(encoded)").status == 400)
                #expect(try await service.api.get("/v1/users/\(encoded)/devices").status == 400)
            }
            let broken = try await service.api.post(
                "/v1/push/register",
                Array("uuid=%4".utf8),
                type: "application/x-www-form-urlencoded"
            )
            #expect(broken.status == 400)
            #expect(try await service.database.count("devices") == 0)
            #expect(service.kakao.calls.isEmpty)
        }
    }

    @Test("A body of another media type is rejected with 415, and one that is too large with 413")
    func mediaTypeAndSize() async throws {
        let body = Self.object(Self.registration, "", nil)
        var cases = ["text/plain", "application/xml", "multipart/form-data; boundary=a", "application/jsonp", ""].map {
            Case(path: "/v1/push/register", body: body, type: $0, field: nil, status: 415)
        }
        cases.append(
            Case(
                path: "/v1/push/send",
                body: "{\"uuids\":[1],\"push_message\":{\"a\":\"\(String(repeating: "a", count: 1 << 20))\"}}",
                field: nil,
                status: 413
            )
        )
        try await Self.refuses(cases)
        try await Self.server.with { service in
            let answer = try await service.api.post("/v1/push/register", Array(body.utf8))
            #expect(answer.status == 415)
        }
    }
}

extension String {
    /// Returns a registration with another push type.
    fileprivate func replacingType(_ type: String) -> String {
        split(separator: "\"gcm\"", omittingEmptySubsequences: false).joined(separator: "\"\(type)\"")
    }
}
