import HTTPTypes
import JSON
import Logging
import TestSupport
import Testing

@testable import HTTPServer

private struct Secret: Error {
    let password = "hunter2"
}

private struct Busy: ProblemConvertible {
    var problem: Problem { Problem(.serviceUnavailable, "The database is busy.") }
}

private final class Gatekeeper: Middleware {
    func receive(_ request: Request) throws -> Response? {
        switch request.path {
        case "/refused": throw Problem(.forbidden, "Not you.")
        case "/aborted": throw ConnectionAbort()
        case "/early": Response.text("early")
        default: nil
        }
    }

    func send(_ response: inout Response, to request: Request) {}
}

private func routes(_ router: inout Router) {
    let errors: [(String, any Error)] = [
        ("secret", Secret()), ("busy", Busy()), ("abort", ConnectionAbort()),
        ("unauthorized", Problem(.unauthorized, "The token has expired.")),
        (
            "problem",
            Problem(
                .badRequest,
                code: -2,
                kind: "invalid-field",
                "uuid is not a number.",
                members: ["field": "uuid"],
                headerFields: [.retryAfter: "7"]
            )
        ),
    ]
    for (name, error) in errors {
        router.add(.get, "/immediate/\(name)", .immediate { _ in throw error })
        router.on(.get, "/task/\(name)") { _ in
            await Task.yield()
            throw error
        }
    }
    router.add(.get, "/a", .immediate { _ in .text("a") })
}

private func get(_ path: String) -> String {
    "GET \(path) HTTP/1.1\r\nHost: a\r\nX-Request-Id: req-1\r\n\r\n"
}

@Suite("Errors", .timeLimit(.minutes(1)))
struct ErrorTests {
    @Test(
        "An unknown error gives a 500 without details, which are logged under the request's id",
        arguments: ["immediate", "task"]
    )
    func unknown(kind: String) async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            let answer = try await client.exchange(get("/\(kind)/secret"))
            #expect(answer.status == 500)
            #expect(answer["content-type"] == "application/problem+json")
            #expect(!answer.text.contains("hunter2"))
            #expect(!answer.text.contains("Secret"))
            #expect(answer["connection"] == nil)
            let line = await server.log.line { $0.message == "Request failed" }
            #expect(line.level == .error)
            #expect(line.metadata["request_id"] == "req-1")
            #expect(line.metadata["error"]?.contains("hunter2") == true)
            #expect(try await client.exchange(get("/a")).text == "a")
        }
    }

    @Test("A problem determines status, members and header fields", arguments: ["immediate", "task"])
    func problem(kind: String) async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            let answer = try await client.exchange(get("/\(kind)/problem"))
            #expect(answer.status == 400)
            #expect(answer["retry-after"] == "7")
            #expect(answer["x-answered-by"] == "server")
            #expect(
                answer.text
                    == #"{"type":"urn:kakao-push-server:error:invalid-field","title":"Bad Request","status":400,"#
                    + #""detail":"uuid is not a number.","code":-2,"msg":"uuid is not a number.","field":"uuid"}"#
            )
            #expect(server.log.lines.isEmpty)
        }
    }

    @Test(
        "A 401 names the scheme that the caller used, and has Kakao's words for such a credential",
        arguments: [
            ("Bearer abc", "Bearer", "this access token does not exist"),
            ("bearer abc", "Bearer", "this access token does not exist"),
            ("KakaoAK abc", "KakaoAK", "invalid app key."), ("kakaoak abc", "KakaoAK", "invalid app key."),
            ("KakaoAK", "Bearer", "no authentication key!"), ("KakaoAKabc", "Bearer", "no authentication key!"),
            ("Basic abc", "Bearer", "no authentication key!"), (nil, "Bearer", "no authentication key!"),
        ] as [(String?, String, String)]
    )
    func unauthorized(authorization: String?, scheme: String, message: String) async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            let field = authorization.map { "Authorization: \($0)\r\n" } ?? ""
            for kind in ["immediate", "task"] {
                let answer = try await client.exchange("GET /\(kind)/unauthorized HTTP/1.1\r\nHost: a\r\n\(field)\r\n")
                #expect(answer.status == 401)
                #expect(answer["www-authenticate"] == "\(scheme) error=invalid_token")
                #expect(answer.text.contains(#""detail":"The token has expired.","code":-401,"msg":"\#(message)""#))
            }
        }
    }

    @Test(
        "A problem has Kakao's usual words for its code, if they are known, or its own",
        arguments: [
            (Problem(.internalServerError, "A bug."), "internal server error!"),
            (Problem(.forbidden, "No scope."), "permission denied"),
            (Problem(.tooManyRequests, "Wait."), "API limit has been exceeded."),
            (Problem(.badRequest, code: -532, "Tomorrow."), "daily message limit per sender has been exceeded."),
            (Problem(.serviceUnavailable, "Wait."), "Wait."), (Problem(.conflict, "Another state."), "Another state."),
        ]
    )
    func words(problem: Problem, message: String) throws {
        let json = try JSONValue(parsing: problem.response.body)
        #expect(json["msg"]?.string == message)
        #expect(json["detail"]?.string == problem.detail)
        var own = problem
        own.message = "own words"
        #expect(try JSONValue(parsing: own.response.body)["msg"] == "own words")
    }

    @Test("A ProblemConvertible error is shown as its problem, and logged for a 5xx status")
    func convertible() async throws {
        try await withServer(routes: routes) { server in
            let answer = try await server.connect().exchange(get("/task/busy"))
            #expect(answer.status == 503)
            #expect(answer.text.contains("The database is busy."))
            #expect(answer.text.contains("\"code\":-9798"))
            #expect(server.log.lines.map(\.message) == ["Request failed"])
        }
    }

    @Test("Errors that repeat are logged once a second", arguments: ["secret", "busy"])
    func repeated(path: String) async throws {
        try await withServer(routes: routes) { server in
            let client = try server.connect()
            let start = ContinuousClock.now
            for _ in 0..<50 { #expect(try await client.exchange(get("/task/\(path)")).status >= 500) }
            let seconds = Int((ContinuousClock.now - start).components.seconds) + 1
            #expect((1...seconds).contains(server.log.lines.count))
        }
    }

    @Test("An abort closes the connection without output", arguments: ["/immediate/abort", "/task/abort", "/aborted"])
    func abort(path: String) async throws {
        try await withServer(middleware: [Gatekeeper()], routes: routes) { server in
            let client = try server.connect()
            try await client.send(get(path) + get("/a"))
            // Closed with an unread request, so the kernel sends a reset.
            let received = (try? await client.receiveToEnd()) ?? ""
            #expect(received == "")
        }
    }

    @Test("Middleware may respond or throw instead of the handler")
    func middleware() async throws {
        try await withServer(middleware: [Gatekeeper()], routes: routes) { server in
            let client = try server.connect()
            #expect(try await client.exchange(get("/early")).text == "early")
            #expect(try await client.exchange(get("/refused")).status == 403)
            #expect(try await client.exchange(get("/a")).text == "a")
        }
    }
}
