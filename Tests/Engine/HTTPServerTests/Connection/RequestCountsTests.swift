import EventLoop
import HTTPTypes
import TestSupport
import Testing

@testable import HTTPServer

private func routes(_ router: inout Router) {
    router.add(.get, "/a", name: "readA", .immediate { _ in .text("a") })
    router.add(.post, "/a", .immediate { _ in .text("a", status: .created) })
    router.add(.get, "/teapot", name: "teapot", .immediate { _ in .text("", status: .init(code: 418)) })
    router.add(.get, "/odd", name: "odd", .immediate { _ in .text("", status: .init(code: 799)) })
    router.add(
        .get,
        "/busy",
        name: "busy",
        .immediate { _ in throw Problem(.serviceUnavailable, kind: "busy", "Busy.") }
    )
    router.add(.get, "/wrong", name: "wrong", .immediate { _ in throw Problem(.badRequest, "Wrong.") })
}

extension RequestCounts {
    fileprivate subscript(route: String) -> [String: Int]? {
        byRoute.first { $0.route == route }.map { Dictionary(uniqueKeysWithValues: $0.statuses.map { ($0, $1) }) }
    }
}

@Suite("Counts of requests", .timeLimit(.minutes(1)))
struct RequestCountsTests {
    @Test("Responses are counted by the name of their route and their status; unlisted statuses by their class")
    func statuses() async throws {
        try await withServer(routes: routes) { server in
            #expect(await server.server.requests().byRoute.isEmpty)
            let client = try server.connect()
            for request in [
                "GET /a", "GET /a", "HEAD /a", "POST /a", "DELETE /a", "GET /none", "GET /teapot", "GET /odd",
            ] {
                try await client.send("\(request) HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
                _ = try await client.receive(isHead: request.hasPrefix("HEAD"))
            }
            let counts = await server.server.requests()
            #expect(counts["readA"] == ["200": 3])
            #expect(counts["POST /a"] == ["201": 1])
            #expect(counts["teapot"] == ["4xx": 1])
            #expect(counts["odd"] == ["5xx": 1])
            #expect(counts["other"] == ["404": 1, "405": 1])
            #expect(counts["busy"] == nil)
            #expect(counts.byRoute.map { $0.durations.counts.reduce(0, +) }.reduce(0, +) == 8)
            #expect(counts.refusals.isEmpty)
        }
    }

    @Test("Refused requests are counted by their reason, also those that are not HTTP; invalid ones are not refused")
    func refusals() async throws {
        let settings = settings { $0.maximumBodyBytes = 10 }
        try await withServer(settings, routes: routes) { server in
            for request in [
                "GET /busy HTTP/1.1\r\nHost: a\r\n", "GET /wrong HTTP/1.1\r\nHost: a\r\n",
                "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n", "nonsense\r\n",
                "GET /\(String(repeating: "a", count: 100_000)) HTTP/1.1\r\n",
            ] {
                let client = try server.connect()
                _ = try await client.exchange("\(request)\r\n")
            }
            let counts = await server.server.requests()
            #expect(counts["busy"] == ["503": 1])
            #expect(counts["wrong"] == ["400": 1])
            #expect(counts["POST /a"] == ["413": 1])
            #expect(counts["other"]?["400"] == 1)
            #expect(counts.refusals["busy"] == 1 && counts.refusals["content-too-large"] == 1)
            #expect(counts.refusals["bad-request"] == nil)
        }
    }

    @Test("The counts are those of all loops")
    func loops() async throws {
        try await withServer(loops: 4, routes: routes) { server in
            for _ in 0..<40 {
                let client = try server.connect()
                _ = try await client.exchange("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            }
            #expect(await server.server.requests()["readA"] == ["200": 40])
            // The kernel distributes connections by a hash, so that no loop can have got all of them.
            let first = server.server.loopServers[0]
            let own = await first.loop.result { first.requests }
            #expect(own["readA"]?["200"] ?? 0 < 40)
        }
    }

    @Test("The duration includes the handler's wait and ends when the response begins")
    func durations() async throws {
        let ends = Gate()
        func slow(_ router: inout Router) {
            router.on(.get, "/slow") { request in
                try await request.loop.sleep(for: .milliseconds(150))
                return Response(.ok) { _ in await ends.wait() }
            }
        }
        try await withServer(routes: slow) { server in
            let client = try server.connect()
            try await client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            _ = try await client.receive(until: "\r\n\r\n")
            let durations = try #require(await server.server.requests().byRoute.first?.durations)
            #expect(durations.counts[...2].reduce(0, +) == 0 && durations.counts.reduce(0, +) == 1)
            #expect((149...60_000).contains(durations.sum))
            ends.open()
        }
    }
}
