import FoundationEssentials
package import HTTPClient
package import JSON
package import KakaoAPI
import KakaoSandbox
import Net
import Testing

/// A request and a response of Kakao's documentation, as a client of this server sends and gets them.
package struct KakaoFixture: Sendable {
    /// The name of the call: ``KakaoOperation/name``.
    package let name: String
    package let method: String
    package let path: String
    /// Whether it is made with the access token of a user.
    package let isOfUser: Bool
    /// The authorization that Kakao documents: `KakaoAK admin-key`.
    package let authorization: String?
    /// The status and the body of the response; `nil` for a response without a body.
    package let status: Int
    package let body: JSONValue?
    private let request: JSONValue

    private init(name: String, _ json: JSONValue) throws {
        let (request, response) = (try #require(json["request"]), try #require(json["response"]))
        self.name = name
        self.request = request
        method = try #require(request["method"]?.string)
        path = try #require(request["path"]?.string)
        authorization = request["authorization"]?.string
        isOfUser = authorization == "Bearer user-token"
        status = Int(try #require(response["status"]?.integer))
        body = response["body"]
    }

    /// Returns the requests for all calls.
    package static func all() throws -> [KakaoFixture] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(
            path: "../Kakao/KakaoAPITests/Fixtures"
        )
        return try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted().map { file in
            let json = try JSONValue(parsing: Array(Data(contentsOf: folder.appending(path: file))))
            return try KakaoFixture(name: String(file.dropLast(".json".count)), json)
        }
    }

    /// Returns the requests that are relayed to Kakao.
    package static func relayed() throws -> [KakaoFixture] {
        try all().filter { fixture in try fixture.call.isRelayed }
    }

    /// The declaration of the call.
    package var call: any KakaoCall.Type {
        get throws { try #require(KakaoCalls.all.first { $0.name == name }) }
    }

    /// The names and values of the query or the form.
    package var fields: [(name: String, value: String)] {
        (request["query"] ?? request["form"])?.object?.members.map { ($0.name, $0.value.string ?? "") } ?? []
    }

    /// Whether the request is a form with files.
    package var hasFiles: Bool { request["files"] != nil }

    /// Sends the request.
    ///
    /// - Parameters:
    ///   - friends: The uuids of friends, if those of the documentation are of another app.
    ///   - target: The user that an operator names; `nil` for a call of the user's own app, or of the whole app.
    ///   - method: Another method of the call.
    ///   - path: Another path of the call.
    package func send(
        by caller: TestClient,
        friends: [String]? = nil,
        target: Int64? = nil,
        method: String? = nil,
        path: String? = nil
    ) async throws -> HTTPClientResponse {
        let path = path ?? self.path
        let named = target.map { [("target_id_type", "user_id"), ("target_id", String($0))] } ?? []
        let fields = fields + named
        if let files = request["files"]?.array {
            let form = MultipartBody(
                fields: fields,
                files: try files.map { file in
                    let bytes = try #require(Data(base64Encoded: file["base64"]?.string ?? ""))
                    return (file["name"]?.string ?? "", Array(bytes))
                }
            )
            return try await caller.post(path, form.bytes, type: form.type)
        }
        var form = FormBody()
        for (name, value) in fields {
            let uuids = friends.map { JSONValue.array($0.map { .string($0) }).description }
            form.append(name, name == "receiver_uuids" ? uuids ?? value : value)
        }
        if let json = request["json"] { return try await caller.post(path, json: json) }
        let query = form.bytes.isEmpty ? path : "\(path)?\(String(decoding: form.bytes, as: UTF8.self))"
        return switch method ?? self.method {
        case "POST": try await caller.post(path, form.bytes, type: FormBody.contentType)
        case "DELETE": try await caller.delete(query)
        default: try await caller.get(query)
        }
    }
}

extension TestService {
    /// Makes all relayed calls of a user succeed, one after another.
    package func allowAllCalls(of userID: Int64) async throws {
        try kakao.sandbox.setUser(
            userID,
            [
                "has_signed_up": false,
                "scopes": [
                    "account_email", "gender", "friends", "talk_message", "story_publish", "story_read",
                    "talk_calendar",
                    "talk_calendar_task",
                ],
                "service_terms": ["marketing", "location"],
            ]
        )
        let story: JSONValue = [
            "stories": .array(
                ["_2Kq9L.FqUKiQ1vUx0", "_2Kq9L.FqUKiQ1vUw0"].map { id in
                    [
                        "id": .string(id), "url": "https://story.kakao.com/a/b", "created_at": "2022-04-11T01:45:28Z",
                        "comment_count": 0, "like_count": 0,
                    ]
                }
            ),
            "images": ["/sJdTVn/hyf/abc/img.gif?width=1&height=1", "/sJdTVn/hyf/def/img.gif?width=1&height=1"],
        ]
        _ = try await kakao.browser.post("/sandbox/users/\(userID)/story", json: story)
        // The first file has the number of the documentation.
        let file: JSONValue = ["channel_public_id": "_ZeUTxl", "file_name": "first", "schema": ["구매금액": "number"]]
        let client = TestClient(url: kakao.sandbox.url, authorization: "KakaoAK \(Keys.admin)", checksContract: false)
        _ = try await client.post("/v1/talkchannel/create/target_user_file", json: file)
        try await storeCalendar(of: userID)
    }

    /// Stores what the calls of Talk Calendar name, for one user, and what channels publish.
    private func storeCalendar(of userID: Int64) async throws {
        func event(_ id: JSONValue) -> JSONValue {
            [
                "id": id, "title": "Cake day",
                "time": ["start_at": "2022-10-27T03:00:00Z", "end_at": "2022-10-27T06:00:00Z"],
            ]
        }
        let stored = try await kakao.browser.post(
            "/sandbox/users/\(userID)/calendar",
            json: [
                "calendars": [["id": "user_6399a1c2afcec577", "name": "Cakes", "color": "RED"]],
                "events": [event("63996425afcec577cbe79b9b")],
                "tasks": [["id": "6399b7d0afcec577", "content": "Bake a cake"]],
            ]
        )
        #expect(stored.status == 200, "\(stored.text)")
        let published = try await kakao.browser.post(
            "/sandbox/calendar",
            json: [
                "events": [event("63996425afcec577cbe79b9c")],
                "calendars": [["id": "subscribe_6399a2d1afcec577", "channel_id": "_ZeUTxl", "name": "Cakes"]],
            ]
        )
        #expect(published.status == 200, "\(published.text)")
    }
}

extension KakaoCall {
    fileprivate static var isRelayed: Bool { operation.isRelayed && operation.family != .push }
}
