import HTTPClient
import HTTPServer
import HTTPTypes
import Identity
import JSON
import KakaoRelay
import KakaoSandbox
import Locking
import Net
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import KakaoAPI
@testable import Settings

/// The calls behind the functions of Kakao's documents, of which `docs/kakao-coverage.md` names each: a client that changes the
/// host and the key gets the response that Kakao documents.
@Suite(.timeLimit(.minutes(5))) struct KakaoFunctionTests {
    /// A call in Kakao's format that the page names.
    private struct Endpoint {
        let method: String
        let path: String
        /// The request and the response of Kakao's documentation.
        let fixture: KakaoFixture
    }

    /// Returns the endpoints of the page that have a path of Kakao's, apart from those of the Push API, which need a state. Those
    /// that end the user's token come last.
    private static func endpoints() throws -> [Endpoint] {
        let fixtures = try KakaoFixture.all().filter { fixture in
            let call = try fixture.call
            return call.family != .push && call.host == .api
        }
        let endpoints = try CoverageTests.named().sorted().compactMap { endpoint -> Endpoint? in
            let words = endpoint.split(separator: " ").map(String.init)
            guard let fixture = try fixtures.first(where: { try $0.call.paths.contains(words[1]) }) else { return nil }
            return Endpoint(method: words[0], path: words[1], fixture: fixture)
        }
        let last = ["/v1/user/logout", "/v1/user/unlink"]
        return endpoints.filter { !last.contains($0.path) } + endpoints.filter { last.contains($0.path) }
    }

    private static func enableCalls(_ settings: inout Settings) {
        settings.identity.requestsPerMinutePerUser = nil
        settings.identity.requestsPerMinutePerAddress = nil
        settings.kakao.makesAppKeyCalls = true
        settings.kakao.kaHeader = "sdk/2.27.3 os/ios-17.0"
        settings.relay.relaysStory = true
    }

    @Test("The page names each path and method of each call that has an endpoint")
    func complete() throws {
        let named = Set(try Self.endpoints().map { "\($0.method) \($0.path)" })
        let declared = Set(
            KakaoCalls.all.filter { $0.family != .push && $0.host == .api }.flatMap { call in
                call.paths.flatMap { path in call.methods.map { "\($0.rawValue) \(path)" } }
            }
        )
        #expect(named == declared)
    }

    @Test("Kakao gets the documented request, and the client the documented response, unchanged")
    func documented() async throws {
        let kakao = DocumentedKakao()
        try await withStubServer(kakao.addRoutes) { url in
            try await withDatabaseAndKakao { database, _ in
                var settings = Settings.test(database.url, kakao: url)
                settings.kakao.appID = DocumentedKakao.appID
                settings.identity.acceptsKakaoAccessTokens = true
                settings.kakao.nativeAppKey = "native-app-key"
                settings.kakao.restAPIKey = "rest-api-key"
                Self.enableCalls(&settings)
                try await RunningServer.run(settings) { server in
                    let api = TestClient(url: server.url, authorization: "KakaoAK \(Keys.operator)")
                    for endpoint in try Self.endpoints() {
                        try await Self.check(endpoint, api, kakao)
                    }
                }
            }
        }
    }

    private static func check(_ endpoint: Endpoint, _ api: TestClient, _ kakao: DocumentedKakao) async throws {
        let fixture = endpoint.fixture
        kakao.begin(fixture)
        // The host and the key are changed. A user's token is that of the user's app.
        let caller = fixture.isOfUser ? api.with(fixture.authorization) : api
        let answer = try await fixture.send(by: caller, method: endpoint.method, path: endpoint.path)
        let place: Comment = "\(endpoint.method) \(endpoint.path): \(answer.text)"
        #expect(answer.status == fixture.status, place)
        #expect(answer.json.map(Self.withoutHosts) == fixture.body.map(Self.withoutHosts), place)
        #expect(answer.body.isEmpty == (fixture.body == nil), place)
        // An empty body has no type.
        #expect(answer.headerFields[.contentType] == (fixture.body == nil ? nil : DocumentedKakao.contentType), place)
        #expect(answer.headerFields[ignoredParameters] == nil, place)

        let call = try fixture.call
        let request = try #require(kakao.requests.last)
        // The server uses one method and one path of each call.
        #expect(request.method == call.methods[0].rawValue, place)
        #expect(request.path == call.paths.last, place)
        let key = fixture.authorization == "KakaoAK admin-key" ? "KakaoAK \(Keys.admin)" : fixture.authorization
        #expect(request.authorization == key, place)
        if !fixture.hasFiles {
            #expect(request.fields == Set(fixture.fields.map { "\($0.name)=\($0.value)" }), place)
        }
    }

    /// Returns a response whose addresses of other pages have no host: here they lead to the server.
    private static func withoutHosts(_ body: JSONValue) -> JSONValue {
        guard var object = body.object else { return body }
        for name in ["before_url", "after_url"] {
            guard let address = object[name]?.string, let path = address.firstRange(of: /\/v[12]\//) else { continue }
            object[name] = .string(String(address[path.lowerBound...]))
        }
        return .object(object)
    }

    @Test("The sandbox gives each call the members of the documented response, with values of the same types")
    func sandbox() async throws {
        try await withKakaoLogin { settings in
            settings.kakao.nativeAppKey = "sandbox-native-app-key"
            Self.enableCalls(&settings)
        } _: { service in
            try service.kakao.sandbox.befriend(7, [8, 9])
            let friends = [8, 9].map { service.kakao.sandbox.friendUUID(of: $0) }
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let app = service.api.with("Bearer \(token)")
            // The token is verified before the user becomes one who may sign up.
            #expect(try await app.get("/v2/user/me").status == 200)
            for endpoint in try Self.endpoints() {
                let fixture = endpoint.fixture
                try await service.allowAllCalls(of: 7)
                let answer = try await fixture.send(
                    by: fixture.isOfUser ? app : service.api,
                    friends: friends,
                    method: endpoint.method,
                    path: endpoint.path
                )
                let place: Comment = "\(endpoint.method) \(endpoint.path): \(answer.text)"
                #expect(answer.status == fixture.status, place)
                let isRead = try fixture.call.reads(answer.body)
                #expect(isRead, place)
                if let documented = fixture.body, let json = answer.json {
                    #expect(Self.differences(json, documented) == [], place)
                }
            }
        }
    }

    /// Returns the places at which a response has a value of another type than a documented one.
    private static func differences(_ value: JSONValue, _ documented: JSONValue, _ place: String = "") -> [String] {
        switch (value, documented) {
        case (.object(let object), .object(let other)):
            object.members.flatMap { member in
                other[member.name].map { differences(member.value, $0, "\(place).\(member.name)") } ?? []
            }
        case (.array(let elements), .array(let others)):
            others.first.map { first in elements.flatMap { differences($0, first, "\(place)[]") } } ?? []
        case (.string, .string), (.number, .number), (.bool, .bool), (.null, _), (_, .null): []
        default: [place]
        }
    }
}

private let ignoredParameters = HTTPField.Name.unvalidated("X-Ignored-Parameters")

extension KakaoCall {
    fileprivate static var family: KakaoFamily { operation.family }
    fileprivate static var host: KakaoHost { operation.host }
    fileprivate static var methods: [HTTPRequest.Method] { operation.methods }
    fileprivate static var paths: [String] { operation.paths }

    /// Returns whether a body is a response to the call.
    fileprivate static func reads(_ body: [UInt8]) -> Bool { operation.answer.decode(body) != nil }
}

/// Kakao, which gives each call the response of its documentation.
private final class DocumentedKakao: Sendable {
    struct ReceivedCall: Sendable {
        let method: String
        let path: String
        let authorization: String?
        /// The fields of the query and the form: `name=value`.
        let fields: Set<String>
    }

    private struct State {
        var fixture: KakaoFixture?
        var requests: [ReceivedCall] = []
    }

    /// The app and the user of all tokens, as in the documentation.
    static let appID: Int64 = 1234
    private static let userID = 123_456_789
    static let contentType = "application/json;charset=UTF-8"

    private let state = Locked(State())

    /// The requests since the present call began.
    var requests: [ReceivedCall] { state.withLock { $0.requests } }

    /// Begins a call.
    func begin(_ fixture: KakaoFixture) {
        state.withLock { $0 = State(fixture: fixture) }
    }

    func addRoutes(to router: inout Router) {
        for call in KakaoCalls.all where call.family != .push && call.host == .api {
            let name = call.name
            for path in call.paths {
                for method in call.methods {
                    router.on(method, path) { request in try self.answer(request, name) }
                }
            }
        }
    }

    private func answer(_ request: Request, _ name: String) throws -> Response {
        let form = request.contentType == FormURLEncoded.mediaType ? try FormURLEncoded.parse(request.body[...]) : []
        let fields = Set((try request.queryItems() + form).map { "\($0.name)=\($0.value)" })
        let received = ReceivedCall(
            method: request.method.rawValue,
            path: request.path,
            authorization: request[.authorization],
            fields: fields
        )
        let body = state.withLock { state -> [UInt8] in
            state.requests.append(received)
            guard state.fixture?.name == name else { return Self.tokenInformation }
            return state.fixture?.body?.bytes() ?? []
        }
        return Response(.ok, contentType: Self.contentType, body: body)
    }

    /// The response to the server, which verifies the token of a user.
    private static let tokenInformation = Array(
        #"{"id":\#(userID),"expires_in":7199,"app_id":\#(appID)}"#.utf8
    )
}
