import EventLoop
import HTTPClient
import KakaoSandbox
import Logging
import ServiceTesting
import Testing

@testable import Identity

/// The keys that an issuer publishes.
@Suite(.timeLimit(.minutes(1))) struct PublishedKeysTests {
    @Test(
        "A token that arrives only once has the keys fetched, also if it has joined a caller for whom no fetch was due"
    )
    func joined() async throws {
        try await withSharedService { service in
            let loops = try EventLoopGroup(count: 1)
            defer { loops.shutdown() }
            let loop = loops.loops[0]
            // Longer than a busy machine takes for the first fetch.
            let client = HTTPClient(settings: HTTPClientSettings(totalTimeout: .seconds(60)), loop: loop)
            let interval = Duration.seconds(4)
            let keys = PublishedKeys(
                url: service.kakao.sandbox.url + "/.well-known/jwks.json",
                avoidsProxy: true,
                interval: interval,
                refreshInterval: .seconds(3600),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
            let arrival = MonotonicTime.now
            #expect(try await keys.key("unknown", since: arrival, isUrgent: false, client, on: loop) == nil)
            // A quarter of the interval later, a fetch is due for this token only.
            try await loop.sleep(for: interval / 4)
            @Sendable func isDecided(isUrgent: Bool) async -> Bool {
                do {
                    _ = try await keys.key("unknown", since: .now, isUrgent: isUrgent, client, on: loop)
                    return true
                } catch {
                    return false
                }
            }
            // Both begin before the loop runs the request that the first of them starts.
            let isUrgentDecided = await Task(executorPreference: loop) {
                async let other = isDecided(isUrgent: false)
                async let urgent = isDecided(isUrgent: true)
                _ = await other
                return await urgent
            }.value
            #expect(isUrgentDecided)
        }
    }
}
