import HTTPTypes
import Logging
import TestSupport
import Testing

@testable import HTTPServer

private func routes(_ router: inout Router) {
    router.add(.get, "/a", .immediate { .text($0.id) })
    router.add(.get, "/healthz", .immediate { _ in .text("ok") })
    router.on(.post, "/kakao/push/feedback/{secret}") { _ in Response(.ok) }
}

private func get(_ target: String, _ fields: String = "") -> String {
    "GET \(target) HTTP/1.1\r\nHost: a\r\n\(fields)\r\n"
}

@Suite("Request ids", .timeLimit(.minutes(1)))
struct RequestIDTests {
    @Test("A valid id from the caller is used", arguments: ["7", "a-B_c.9:x", String(repeating: "x", count: 128)])
    func given(id: String) async throws {
        try await withServer(routes: routes) { server in
            let answer = try await server.connect().exchange(get("/a", "X-Request-Id: \(id)\r\n"))
            #expect(answer["x-request-id"] == id)
            #expect(answer.text == id)
        }
    }

    @Test(
        "An invalid id is replaced by a generated one",
        arguments: ["", "a b", "a,b", "a\"b", "<a>", "카", String(repeating: "x", count: 129)]
    )
    func replaced(id: String) async throws {
        try await withServer(routes: routes) { server in
            let answer = try await server.connect().exchange(get("/a", "X-Request-Id: \(id)\r\n"))
            let own = try #require(answer["x-request-id"])
            #expect(own.wholeMatch(of: /[0-9a-f]{8}-[0-9a-f]+/) != nil)
            #expect(answer.text == own)
        }
    }

    @Test("Each request has a unique id, including refused bytes")
    func distinct() async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            var ids = Set<String>()
            for request in [get("/a"), get("/a"), get("/nothing"), "NONSENSE\r\n\r\n"] {
                let answer = try await client.exchange(request)
                ids.insert(try #require(answer["x-request-id"]))
            }
            #expect(ids.count == 4)
        }
    }
}

@Suite("The access log", .timeLimit(.minutes(1)))
struct AccessLogTests {
    /// Returns the log lines of `requests`, which are sent one after another.
    private func lines(of requests: String..., quietPaths: [String] = []) async throws -> [CollectedLog.Line] {
        let log = CollectedLog()
        let accessLog = AccessLog(
            logger: log.logger,
            quietPaths: quietPaths,
            mask: SecretMask(secrets: ["topsecret"], prefixes: ["/kakao/push/feedback/"], beginnings: ["kps_"])
        )
        try await withServer(middleware: [accessLog], routes: routes) { server in
            let client = try server.connect()
            for request in requests { _ = try await client.exchange(request) }
        }
        return log.lines
    }

    @Test("A line has client, method, path, status and duration, but no query or headers")
    func line() async throws {
        let fields = "X-Request-Id: req-1\r\nAuthorization: KakaoAK topsecret\r\n"
        let line = try #require(try await lines(of: get("/a?token=topsecret", fields)).first)
        #expect(line.level == .info)
        #expect(line.message == "GET /a 200")
        #expect(line.metadata["request_id"] == "req-1")
        #expect(line.metadata["remote"] == "127.0.0.1")
        #expect(line.metadata["milliseconds"].flatMap { Int($0) } != nil)
        #expect(!line.text.contains("topsecret"))
    }

    @Test("A path that ends in a secret is masked, whatever the status")
    func masked() async throws {
        let post = "POST /kakao/push/feedback/topsecret HTTP/1.1\r\nHost: a\r\n\r\n"
        let lines = try await lines(of: post, get("/kakao/push/feedback/topsecret/x"))
        #expect(lines.map(\.message) == ["POST /kakao/push/feedback/*** 200", "GET /kakao/push/feedback/*** 404"])
        #expect(!lines.contains { $0.text.contains("topsecret") })
    }

    @Test(
        "Secrets and the rest of secret paths are masked anywhere and in any encoding",
        arguments: [
            ("//kakao/push/feedback/topsecret", "/kakao/push/feedback/***"),
            ("/kakao//push/feedback///topsecret", "/kakao/push/feedback/***"),
            ("/kakao/push/feedback%2Ftopsecret", "/kakao/push/feedback/***"),
            ("/%6Bakao/push/feedback/topsecret", "/kakao/push/feedback/***"),
            ("/kakao/push/feedback/%74opsecret", "/kakao/push/feedback/***"),
            ("/Kakao/PUSH/feedback/topsecret", "/kakao/push/feedback/***"),
            ("/kakao/push/feedback/topsecre", "/kakao/push/feedback/***"),
            ("/kakao/push/feedback/%zztopsecret", "/kakao/push/feedback/***"),
            ("/x/../kakao/push/feedback/topsecret", "/x/../kakao/push/feedback/***"),
            ("/kakao/push/topsecret/x", "/kakao/push/***/x"),
            ("/topsecret?topsecret", "/***"),
            ("/x/%74opsecret", "***"), ("/x/%2574op%73ecret", "***"), ("/x/%252574opsecret", "***"),
            ("/topsecret/%74opsecret", "***"), ("/x/top%2Fsecret", "/x/top%2Fsecret"), ("/x/%zz", "/x/%zz"),
            ("/x//y", "/x//y"),
            // Keys in the wrong place.
            ("/a/kps_0123", "/a/***"), ("/x/kps_/y", "/x/***/y"), ("/x/%6bps_0123", "***"),
            ("/x/0123456789abcdef01234567", "/x/***"), ("/0123456789abcdef01234567/y", "/***/y"),
            ("/x/0123456789abcdef0123456", "/x/0123456789abcdef0123456"),
            // Only the beginning of a long path is shown.
            ("/x/" + String(repeating: "y", count: 500), "/x/***"),
            (String(repeating: "/a", count: 300) + "/topsecret", String(repeating: "/a", count: 199) + "/***"),
        ]
    )
    func maskedAnywhere(path: String, logged: String) async throws {
        let line = try #require(try await lines(of: get(path)).first)
        #expect(line.message.split(separator: " ").dropFirst().first.map(String.init) == logged)
        #expect(!line.text.contains("topsecret"))
    }

    @Test("Requests of health probes are logged at debug")
    func quiet() async throws {
        let lines = try await lines(of: get("/healthz"), get("/a"), quietPaths: ["/healthz"])
        #expect(lines.map(\.level) == [.debug, .info])
    }

    @Test("Refused bytes are logged with the reason, but not their content")
    func refused() async throws {
        let line = try #require(try await lines(of: "TOPSECRET\r\n\r\n").first)
        #expect(line.message == "Request refused: 400")
        #expect(line.metadata["request_id"]?.isEmpty == false)
        #expect(line.metadata["remote"] == "127.0.0.1")
        #expect(line.metadata["reason"] == "The method is not a token followed by one space.")
        #expect(!line.text.contains("TOPSECRET"))
    }
}
