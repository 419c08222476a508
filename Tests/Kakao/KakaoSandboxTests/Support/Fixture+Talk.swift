import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Testing

/// Calls of KakaoTalk by the client that the server has.
extension Fixture {
    /// A template that Kakao accepts.
    static let template: JSONObject = [
        "object_type": "text", "text": "Hi", "link": ["web_url": "https://example.com"],
    ]

    /// Sends a message to friends.
    func message(
        from sender: Int64,
        to receivers: [Int64],
        _ template: JSONObject = Fixture.template
    ) async throws -> FriendMessageAnswer {
        let uuids = receivers.map { sandbox.friendUUID(of: $0) }
        return try await kakao.call(
            SendDefaultMessage(receivers: uuids, template: template),
            as: try token(of: sender)
        )
    }

    /// Returns status, code and text of a message to friends that Kakao refuses.
    func refusal(from sender: Int64, to receivers: [Int64]) async throws -> String {
        let uuids = receivers.map { sandbox.friendUUID(of: $0) }
        return try await refusal(
            of: SendDefaultMessage(receivers: uuids, template: Self.template),
            as: try token(of: sender)
        )
    }

    /// Sets state by a control.
    func set(_ path: String, _ body: JSONValue) async throws {
        let response = try await control(.post, path, body)
        try #require(response.status == 200, "\(response.text)")
    }
}

extension FriendMessageAnswer {
    /// The reasons for which receivers were not reached: the code, and the number of receivers.
    var codes: [[Int]] { failures.map { [$0.code.rawValue, $0.receivers.count] } }
}
