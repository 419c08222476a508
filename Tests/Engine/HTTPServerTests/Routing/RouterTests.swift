import HTTPTypes
import Net
import Testing

@testable import HTTPServer

@Suite("Routes")
struct RouterTests {
    /// Returns the routing result for a request as text.
    private func ask(
        _ patterns: [(HTTPRequest.Method, String)],
        _ method: HTTPRequest.Method,
        _ path: String
    ) throws -> String {
        var router = Router()
        for (method, pattern) in patterns {
            router.add(method, pattern, .immediate { _ in .text(pattern) })
        }
        switch try router.match(method, path: path) {
        case .found(let route, let parameters):
            guard case .immediate = route.handler else { return "found a task" }
            return (["found"] + parameters.map { "\($0.name)=\($0.value)" }).joined(separator: " ")
        case .methodNotAllowed(let allowed): return "allowed: \(allowed)"
        case .notFound: return "not found"
        }
    }

    private let patterns: [(HTTPRequest.Method, String)] = [
        (.get, "/"), (.get, "/v1/pushes"), (.post, "/v1/pushes"), (.get, "/v1/pushes/{id}"),
        (.post, "/v1/pushes/{id}/pause"), (.get, "/v1/pushes/stats"), (.put, "/v1/audiences/{name}"),
    ]

    @Test(
        "A path matches literal segments first, then named ones",
        arguments: [
            ("/", "found"), ("/v1/pushes", "found"), ("/v1/pushes/7", "found id=7"), ("/v1/pushes/stats", "found"),
            ("/v1/pushes/a%20b", "found id=a b"), ("/v1/pushes/a+b", "found id=a+b"), ("/v1/pushes/%2F", "found id=/"),
            ("", "not found"), ("//", "not found"), ("/v1", "not found"), ("/v1/", "not found"),
            ("/v1/pushes/", "not found"),
            ("/v1/pushes//", "not found"), ("//v1/pushes", "not found"), ("/V1/pushes", "not found"),
            ("*", "not found"),
            ("/v1/pushes/7/8", "not found"), ("/v1/pushes/7/pause/8/9", "not found"),
            ("/v1/pushes/{id}", "found id={id}"), ("/v1/%70ushes", "not found"),
        ]
    )
    func paths(path: String, outcome: String) throws {
        #expect(try ask(patterns, .get, path) == outcome)
    }

    @Test("An unsupported method gets the allowed ones, with HEAD where there is GET")
    func methods() throws {
        #expect(try ask(patterns, .delete, "/v1/pushes") == "allowed: GET, POST, HEAD")
        #expect(try ask(patterns, .get, "/v1/pushes/7/pause") == "allowed: POST")
        #expect(try ask(patterns, .head, "/v1/audiences/a") == "allowed: PUT")
        #expect(try ask(patterns, .head, "/v1/pushes/7") == "found id=7")
    }

    @Test("An undecodable name is an error", arguments: ["/v1/pushes/%", "/v1/pushes/%zz", "/v1/pushes/%ff"])
    func undecodable(path: String) {
        #expect(throws: FormURLEncoded.ParseError.self) { try ask(patterns, .get, path) }
    }

    @Test("If a literal leads to no route, a name is tried")
    func backtracking() throws {
        let patterns: [(HTTPRequest.Method, String)] = [(.get, "/a/b/d"), (.get, "/a/{x}/c"), (.get, "/{y}/b/e")]
        #expect(try ask(patterns, .get, "/a/b/d") == "found")
        #expect(try ask(patterns, .get, "/a/b/c") == "found x=b")
        #expect(try ask(patterns, .get, "/a/b/e") == "found y=a")
        #expect(try ask(patterns, .get, "/a/b/f") == "not found")
    }

    @Test("If a literal lacks the method, a name is tried; Allow lists the methods of both")
    func methodsBesideName() throws {
        let patterns: [(HTTPRequest.Method, String)] = [(.post, "/a/import"), (.put, "/a/{x}"), (.delete, "/a/{x}")]
        #expect(try ask(patterns, .post, "/a/import") == "found")
        #expect(try ask(patterns, .put, "/a/import") == "found x=import")
        #expect(try ask(patterns, .get, "/a/import") == "allowed: POST, PUT, DELETE")
        #expect(try ask(patterns, .get, "/a/b") == "allowed: PUT, DELETE")
    }

    @Test(
        "A path without a route is compared with patterns segment by segment, also without its beginning",
        arguments: [
            ("/v1/pushs", "/v1/pushes"), ("/pushes", "/v1/pushes"), ("/v1/pushes/", "/v1/pushes"),
            ("/v1/push/7/pause", "/v1/pushes/{id}/pause"), ("/v1/pushes/7/pausse", "/v1/pushes/{id}/pause"),
            ("/audience/a", "/v1/audiences/{name}"), ("/v1/pushes/7/8", nil), ("/v1/other", nil), ("/v1", nil),
            ("*", nil), ("//", nil), ("/v1/pushes/7/pause/8/9/10", nil),
        ] as [(String, String?)]
    )
    func nearest(path: String, expected: String?) {
        var router = Router()
        for (method, pattern) in patterns { router.add(method, pattern, .immediate { _ in .text(pattern) }) }
        let nearest = router.nearest(to: path) { name, known in
            known.first { $0.hasPrefix(name.prefix(3)) && abs($0.count - name.count) <= 2 }
        }
        #expect(nearest == expected)
    }

    @Test("A similar path may have another version, and no word as an id; a few known names are listed instead")
    func alternatives() throws {
        var router = Router()
        let patterns = [
            "/v1/push/send", "/v1/push/register", "/v1/pushes/{id}", "/v1/pushes/{id}/users", "/v1/user/ids",
            "/v2/user/me",
            "/v1/users/{user_id}",
        ]
        for pattern in patterns { router.add(.get, pattern, .immediate { _ in .text(pattern) }) }
        let nearest = { (path: String) in
            router.nearest(to: path) { name, known in
                known.first { $0.hasPrefix(name.prefix(3)) && abs($0.count - name.count) <= 2 }
            }
        }
        #expect(nearest("/v1/user/me") == "/v2/user/me")
        #expect(nearest("/v1/push/foo") == nil)
        #expect(nearest("/v1/user/1234") == "/v1/users/{user_id}")
        #expect(nearest("/v1/push/7/users") == "/v1/pushes/{id}/users")
        let listed = try #require(router.alternatives(to: "/v1/push/foo"))
        #expect(listed.beginning == "/v1/push" && listed.names == ["register", "send"])
        for path in ["/v1/foo", "/v1/foo/bar", "/v1/pushes/7", "/", "*"] {
            #expect(router.alternatives(to: path) == nil, "\(path)")
        }
        for number in 0..<8 { router.add(.get, "/v1/push/name-\(number)", .immediate { _ in .text("") }) }
        #expect(router.alternatives(to: "/v1/push/foo") == nil)
    }

    @Test("The search for a similar path follows few branches, however many patterns there are")
    func boundedSearch() {
        var router = Router()
        for number in 0..<100 { router.add(.get, "/a\(number)/{b}/c/{d}/e\(number)", .immediate { _ in .text("") }) }
        var count = 0
        let path = "/a1" + String(repeating: "/x", count: 4)
        _ = withUnsafeMutablePointer(to: &count) { count in
            let counter = Counter(count: count)
            return router.nearest(to: path) { _, known in
                counter.count.pointee += 1
                return known.first
            }
        }
        #expect((1...100).contains(count))
        #expect(router.nearest(to: "/" + String(repeating: "x", count: 500)) { _, known in known.first } == nil)
    }

    private struct Counter: @unchecked Sendable {
        let count: UnsafeMutablePointer<Int>
    }

    @Test("A route may have several names, which are returned in order")
    func severalNames() throws {
        let found = try ask([(.get, "/{a}/x/{b}")], .get, "/1/x/2")
        #expect(found == "found a=1 b=2")
    }
}
