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
            #expect(
                answer.text
                    == #"{"type":"urn:kakao-push-server:error:invalid-field","title":"Bad Request","status":400,"#
                    + #""detail":"uuid is not a number.","code":-2,"msg":"uuid is not a number.","field":"uuid"}"#
            )
            #expect(server.log.lines.isEmpty)
        }
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
