import HTTPClient
import HTTPTypes
import KakaoAPI
import Schemas
import Testing

/// The forms of requests that a call may declare.
@Suite struct RequestTests {
    /// A call with a query, as a user.
    private struct Query: KakaoCall {
        typealias Answer = Void
        let name: String?
        let ids: [Int64]?

        static let operation = KakaoOperation<Self>(
            "test_query",
            [.get],
            "/v1/query",
            .user,
            [.userToken, .adminKeyForUser],
            "A call for tests.",
            parameters: Record(
                .optional("name", \.name, .text, "A name."),
                .optional("ids", \.ids, .userIDs(count: 1...3), "Some ids."),
                make: Self.init
            ),
            answer: .empty
        )
    }

    private struct Deletion: KakaoCall {
        typealias Answer = Void
        let url: String

        static let operation = KakaoOperation<Self>(
            "test_deletion",
            [.delete],
            "/v1/image",
            .sharing,
            [.appKey],
            "A call for tests.",
            parameters: Record(.required("image_url", \.url, .text, "An address."), make: Self.init),
            answer: .empty
        )
    }

    private struct Token: KakaoCall {
        typealias Answer = Void
        let grant: String

        static let operation = KakaoOperation<Self>(
            "test_token",
            [.post],
            "/oauth/token",
            host: .auth,
            .user,
            [.none],
            isIdempotent: false,
            "A call for tests.",
            parameters: Record(.required("grant_type", \.grant, .text, "A grant."), make: Self.init),
            answer: .empty
        )
    }

    private struct Upload: KakaoCall {
        typealias Answer = Void
        let secure: Bool?

        static let operation = KakaoOperation<Self>(
            "test_upload",
            [.post],
            "/v1/upload",
            .story,
            [.userToken],
            isIdempotent: false,
            "A call for tests.",
            parameters: Record(
                .optional("secure_resource", \.secure, .boolean, "Whether addresses are https."),
                make: Self.init
            ),
            answer: .empty,
            uploadPart: "file"
        )
    }

    private static func request<Call: KakaoCall>(
        _ call: Call,
        as credential: KakaoCredential,
        uploads: [KakaoUpload] = []
    ) async throws -> KakaoAPITests.Call where Call.Answer == Void {
        let (_, calls) = try await withKakao(answering: answer(200, "")) { kakao in
            try await kakao.call(call, as: credential, uploads: uploads)
        }
        return try #require(calls.first)
    }

    @Test("A GET has its parameters in the query and no body")
    func query() async throws {
        let request = try await Self.request(Query(name: "a b&c", ids: [1, 2]), as: .userToken("user-token"))
        #expect(request.lines.first == "GET /v1/query?name=a%20b%26c&ids=%5B%221%22%2C%222%22%5D HTTP/1.1")
        #expect(request.lines.contains("Authorization: Bearer user-token"))
        #expect(request.body.isEmpty)
        #expect(!request.lines.contains { $0.hasPrefix("Content-") })
        let bare = try await Self.request(Query(name: nil, ids: nil), as: .userToken("user-token"))
        #expect(bare.lines.first == "GET /v1/query HTTP/1.1")
    }

    @Test("A call with the Admin key for a user names the user")
    func target() async throws {
        let request = try await Self.request(Query(name: nil, ids: nil), as: .adminKeyForUser(.max))
        #expect(
            request.lines.first == "GET /v1/query?target_id_type=user_id&target_id=9223372036854775807 HTTP/1.1"
        )
        #expect(request.lines.contains("Authorization: KakaoAK admin-key"))
    }

    @Test("A DELETE has a query, and a call of an app has the header field KA")
    func deletion() async throws {
        let request = try await Self.request(Deletion(url: "https://k.kakaocdn.net/a.png?b=c"), as: .appKey)
        #expect(
            request.lines.first
                == "DELETE /v1/image?image_url=https%3A%2F%2Fk.kakaocdn.net%2Fa.png%3Fb%3Dc HTTP/1.1"
        )
        #expect(request.lines.contains("Authorization: KakaoAK native-app-key"))
        #expect(request.lines.contains("KA: sdk/2.27.3 os/ios-17.0"))
    }

    @Test("A call of the authorization server goes to its address, without a credential")
    func authorizationServer() async throws {
        let request = try await Self.request(Token(grant: "refresh_token"), as: .none)
        #expect(request.lines.first == "POST /auth/oauth/token HTTP/1.1")
        #expect(request.form == ["grant_type=refresh_token"])
        #expect(!request.lines.contains { $0.hasPrefix("Authorization") })
    }

    @Test("Files are sent in parts of a form while they are read")
    func upload() async throws {
        let files = [
            KakaoUpload(fileName: "a\"\r\n.png", contentType: "image/png", content: .pieces(["one ", "two"])),
            KakaoUpload(fileName: "b.gif", contentType: "image/gif", content: .pieces([])),
        ]
        let request = try await Self.request(Upload(secure: true), as: .userToken("user-token"), uploads: files)
        let type = try #require(request.lines.first { $0.hasPrefix("Content-Type: ") })
        let boundary = try #require(type.split(separator: "boundary=").last)
        #expect(type == "Content-Type: multipart/form-data; boundary=\(boundary)")
        let lines = [
            "--\(boundary)", "Content-Disposition: form-data; name=\"secure_resource\"", "", "true",
            "--\(boundary)", "Content-Disposition: form-data; name=\"file\"; filename=\"a%22%0D%0A.png\"",
            "Content-Type: image/png", "", "one two",
            "--\(boundary)", "Content-Disposition: form-data; name=\"file\"; filename=\"b.gif\"",
            "Content-Type: image/gif", "", "",
            "--\(boundary)--", "",
        ]
        #expect(request.body == lines.joined(separator: "\r\n"))
        #expect(request.lines.contains("Content-Length: \(request.body.utf8.count)"))
    }

    @Test("A request is shown without its credential")
    func shown() async throws {
        _ = try await withKakao(answering: "") { kakao in
            let shown = kakao.shownRequest(of: Query(name: nil, ids: nil), as: .userToken("user-token"))
            #expect(shown.headerFields[.authorization] == "Bearer ***")
        }
    }
}

extension HTTPClientUpload {
    /// A file that is read in pieces.
    fileprivate static func pieces(_ texts: [String]) -> HTTPClientUpload {
        let reader = Pieces(texts.map { Array($0.utf8) })
        return HTTPClientUpload(length: texts.reduce(0) { $0 + $1.utf8.count }) { await reader.next() }
    }

    private actor Pieces {
        private var pieces: ArraySlice<[UInt8]>

        init(_ pieces: [[UInt8]]) { self.pieces = pieces[...] }

        func next() -> [UInt8] { pieces.popFirst() ?? [] }
    }
}
