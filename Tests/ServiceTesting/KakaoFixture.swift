import FoundationEssentials
package import HTTPClient
import JSON
import KakaoAPI
import KakaoSandbox
import Net
import Testing

/// A request of Kakao's documentation, as a client of this server sends it.
package struct KakaoFixture {
    /// The name of the call: ``KakaoOperation/name``.
    package let name: String
    /// Whether it is made with the access token of a user.
    package let isOfUser: Bool
    package let path: String
    private let request: JSONValue

    /// Returns the requests that are relayed to Kakao.
    package static func relayed() throws -> [KakaoFixture] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(
            path: "../Kakao/KakaoAPITests/Fixtures"
        )
        return try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted().compactMap { file in
            let json = try JSONValue(parsing: Array(Data(contentsOf: folder.appending(path: file))))
            let request = try #require(json["request"])
            let name = String(file.dropLast(".json".count))
            let call = try #require(KakaoCalls.all.first { $0.name == name })
            guard call.isRelayed else { return nil }
            return KakaoFixture(
                name: name,
                isOfUser: request["authorization"] == "Bearer user-token",
                path: try #require(request["path"]?.string),
                request: request
            )
        }
    }

    /// Sends the request.
    ///
    /// - Parameters:
    ///   - friends: The uuids of friends. Those of the documentation are of another app.
    ///   - target: The user that an operator names; `nil` for a call of the user's own app, or of the whole app.
    package func send(by caller: TestClient, friends: [String], target: Int64? = nil) async throws -> HTTPClientResponse
    {
        let named = target.map { [("target_id_type", "user_id"), ("target_id", String($0))] } ?? []
        let given =
            (request["query"] ?? request["form"])?.object?.members.map { ($0.name, $0.value.string ?? "") } ?? []
        let fields = given + named
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
            let uuids = JSONValue.array(friends.map { .string($0) })
            form.append(name, name == "receiver_uuids" ? uuids.description : value)
        }
        let query = form.bytes.isEmpty ? path : "\(path)?\(String(decoding: form.bytes, as: UTF8.self))"
        return switch request["method"]?.string {
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
                "scopes": ["account_email", "gender", "friends", "talk_message", "story_publish", "story_read"],
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
    }
}

extension KakaoCall {
    fileprivate static var isRelayed: Bool { operation.isRelayed && operation.family != .push }
}
