import FoundationEssentials
import JSON
import KakaoSandbox
import ServiceTesting
import TestSupport
import Testing

/// The requests with `curl` in Kakao's document of the Push REST API: a client that changes the host and the key gets the
/// responses that the document shows.
@Suite(.timeLimit(.minutes(5))) struct PushDocumentTests {
    /// A request of the document, with its response.
    private struct DocumentedCall {
        let name: String
        /// The arguments of `curl` after the address and the key.
        let arguments: [String]
        let method: String
        let path: String
        /// The response's body; `nil` for an empty one.
        let body: JSONValue?

        init(_ json: JSONValue) throws {
            name = try #require(json["name"]?.string)
            method = try #require(json["method"]?.string)
            path = try #require(json["path"]?.string)
            let data = (json["data"]?.array ?? []).flatMap { ["-d", $0.string ?? ""] }
            arguments = data + (json["urlencoded"]?.array ?? []).flatMap { ["--data-urlencode", $0.string ?? ""] }
            body = json["response"]?["body"]
        }
    }

    private static func calls() throws -> [DocumentedCall] {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Fixtures/push_document.json")
        let document = try JSONValue(parsing: Array(Data(contentsOf: file)))
        return try (document["calls"]?.array ?? []).map { try DocumentedCall($0) }
    }

    @Test("Each request of the document, with the host and the key changed, gets the documented response")
    func documented() async throws {
        try await withDatabaseAndKakao { database, kakao in
            try await RunningProgram.with(environment: RunningProgram.environment(database, kakao)) { _, api in
                for call in try Self.calls() {
                    try await Self.check(call, at: api.url)
                    // Kakao has what the document says that it has.
                    let tokens = try await kakao.tokens(of: 1234).count
                    #expect(tokens == (["deregister", "send"].contains(call.name) ? 0 : 1), "\(call.name)")
                }
                try await eventually("Kakao has the push") { kakao.sandbox.stats.sends == 1 }
            }
        }
    }

    private static func check(_ call: DocumentedCall, at url: String) async throws {
        let key = ["-H", "Authorization: KakaoAK \(Keys.operator)"]
        let request = ["curl", "-sS", "-i", "-X", call.method, "\(url)\(call.path)"] + key + call.arguments
        let answer = try await Program.run(request, environment: [:])
        let place: Comment = "\(call.name): \(answer.text)"
        let end = try #require(answer.text.firstRange(of: "\r\n\r\n"))
        let head = answer.text[..<end.lowerBound].split(separator: "\r\n").map(String.init)
        let body = String(answer.text[end.upperBound...])
        #expect(head.first == "HTTP/1.1 200 OK", place)
        let fields = Dictionary(
            head.dropFirst().map { line in
                let parts = line.split(separator: ":", maxSplits: 1).map(String.init)
                return (parts[0].lowercased(), parts[1].trimmingPrefix(while: { $0 == " " }).description)
            },
            uniquingKeysWith: { first, _ in first }
        )
        #expect(fields["content-type"] == "application/json;charset=UTF-8", place)
        #expect(fields["content-length"] == String(body.utf8.count), place)
        guard let documented = call.body else {
            #expect(body.isEmpty, place)
            return
        }
        let (given, expected) = (try withoutTimes(JSONValue(parsing: body)), try withoutTimes(documented))
        #expect(given == expected, place)
    }

    /// Returns a list of tokens without their times, which it checks to be in Kakao's format.
    private static func withoutTimes(_ body: JSONValue) throws -> JSONValue {
        guard let tokens = body.array else { return body }
        return .array(
            try tokens.map { token in
                var members = try #require(token.object)
                for name in ["created_at", "updated_at"] {
                    let time = try #require(members[name]?.string)
                    #expect(time.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/) != nil)
                    members[name] = nil
                }
                return .object(members)
            }
        )
    }
}
