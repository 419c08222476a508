import Endpoints
import EventLoop
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import Net
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Settings
@testable import Sharing

/// What visitors of landing addresses can cost.
@Suite(.timeLimit(.minutes(5))) struct LandingLimitTests {
    /// Visits a path with a browser of its own.
    private static func visit(_ api: TestClient, _ path: String, browser: Int) async throws -> HTTPClientResponse {
        var caller = api.with(nil)
        caller.headerFields[.userAgent] = "Mozilla/5.0 (browser \(browser))"
        return try await caller.get(path)
    }

    @Test(
        "Beyond the limits of an address, visits are redirected without being counted, and answered 429 if they need a query"
    )
    func address() async throws {
        try await withService {
            ShareTests.adjust(&$0)
            $0.http.trustedProxies = TrustedProxies("127.0.0.1") ?? .none
            $0.sharing.visitsPerMinutePerAddress = 3
            $0.sharing.countedVisitsPerMinutePerAddress = 1
        } _: { service in
            let shares = try await [0, 1].asyncMap { _ in
                try await ShareTests.create(service.api, ["template": ShareTests.template])
            }
            let ids = try shares.map { try #require($0["id"]?.string) }
            let (one, other) = (service.api.from("203.0.113.7"), service.api.from("203.0.113.8"))
            #expect(try await Self.visit(one, "/s/\(ids[0])", browser: 0).status == 302)
            // Each unknown id needs a query.
            func invented() -> String { "/s/\(ShareID(.v7()).text)" }
            try await eventually("the address is over its limit") {
                let answer = try await Self.visit(one, invented(), browser: 0)
                guard answer.status == 429 else {
                    #expect(answer.status == 404)
                    return false
                }
                #expect(answer.problem == "too-many-requests")
                #expect((1...60).contains(answer.headerFields[.retryAfter].flatMap { Int($0) } ?? 0))
                return true
            }
            // Whatever strangers do, a share that the server knows leads on.
            for browser in 1...5 {
                #expect(try await Self.visit(one, "/s/\(ids[0])", browser: browser).status == 302)
            }
            #expect(try await Self.visit(other, "/s/\(ids[1])", browser: 1).status == 302)
            #expect(try await Self.visit(one, "/s/\(ids[1])", browser: 1).status == 302)
            try await eventually("a visit from each address is counted") {
                let landings = try await ids.asyncMap {
                    try await service.api.get("/v1/link/shares/\($0)").json?["landings"]
                }
                return landings == [1, 1]
            }
            #expect(try await service.api.metrics().value("kakao_push_landings_limited_total") == 6)
            #expect(try await service.database.count("share_visits") == 2)
        }
    }

    @Test("An id without a share is looked up once a minute, and a share whenever it is not cached")
    func unknown() async throws {
        try await TestDatabase.with { database in
            let store = ShareStore(pool: database.pool, statisticsArgs: [])
            let (cache, id, start) = (ShareCache(), ShareID(.v7()), MonotonicTime.now)
            #expect(try await cache.links(of: id, store, at: start) == nil)
            let share = Share(
                id: id,
                campaign: nil,
                templateID: nil,
                args: [:],
                links: ["https://shop.example.com/"],
                expiresAt: Date() + 60
            )
            try await database.pool.write(InsertShare(share: share))
            #expect(try await cache.links(of: id, store, at: start + .seconds(59)) == nil)
            #expect(try await cache.links(of: id, store, at: start + .seconds(60)) == ["https://shop.example.com/"])
            #expect(try await ShareCache().links(of: id, store) == ["https://shop.example.com/"])
        }
    }
}
