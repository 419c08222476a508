import Crypto
import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
package import JSON
package import KakaoSandbox
import Pushes
package import Runtime
package import Server
import TestSupport
import Testing

@testable import Identity
@testable import Settings
@testable import Webhooks

/// The secrets of the tests.
package enum WebhookSecrets {
    package static let first = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    package static let second = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
}

extension Settings {
    /// Makes the sandbox the endpoint of webhooks, with short intervals.
    package mutating func sendWebhooks(to kakao: TestKakao, path: String = "/webhooks?token=hidden") {
        webhooks.url = WebhookURL(kakao.sandbox.url + path)
        webhooks.secret = WebhookSecret(WebhookSecrets.first)
        webhooks.intervals.work = WorkIntervals(lease: .seconds(2))
        webhooks.intervals.firstProbe = .milliseconds(50)
        webhooks.intervals.longestProbe = .milliseconds(200)
        webhooks.intervals.retries = [.milliseconds(100), .milliseconds(100), .milliseconds(100)]
        webhooks.intervals.poll = .seconds(1)
    }
}

/// Runs `body` with a server that sends webhooks to the sandbox.
package func withWebhooks(
    _ adjust: (inout Settings) -> Void = { _ in },
    _ body: (TestService) async throws -> Void
) async throws {
    try await withDatabaseAndKakao { database, kakao in
        var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
        settings.kakao.appID = 123_456
        settings.kakao.authURL = settings.kakao.apiURL
        settings.kakao.restAPIKey = KakaoSandboxSettings().restAPIKey
        settings.identity.acceptsKakaoAccessTokens = true
        settings.identity.acceptsKakaoIDTokens = true
        settings.pushes.intervals = WorkIntervals(lease: .seconds(2))
        settings.sendWebhooks(to: kakao)
        adjust(&settings)
        let log = CollectedLog()
        try await RunningServer.run(settings, log: log) { server in
            kakao.sandbox.sendCallbacks(to: server.url)
            defer { kakao.sandbox.removeFaults() }
            try await body(
                TestService(database: database, kakao: kakao, settings: settings, server: server, log: log)
            )
        }
    }
}

extension TestKakao {
    /// The webhooks of a type, each once, in the order of their first arrival.
    package func webhooks(_ type: WebhookType) -> [ReceivedWebhook] {
        var known: Set<String> = []
        return sandbox.webhooks().filter { $0.type == type.rawValue && known.insert($0.id).inserted }
    }

    /// Waits for webhooks of a type, and returns the members `data`.
    package func webhooks(_ type: WebhookType, count: Int) async throws -> [JSONValue] {
        try await eventually("\(count) webhooks of the type \(type.rawValue) arrive") { webhooks(type).count >= count }
        return webhooks(type).map { $0.json?["data"] ?? .null }
    }
}

extension TestClient {
    /// Calls as Kakao does when a message has reached a chat room.
    package func linkCallback(_ id: String) async throws {
        let caller = with("KakaoAK \(Keys.admin)")
        var kakao = caller
        kakao.headerFields[.unvalidated("X-Kakao-Resource-ID")] = id
        let response = try await kakao.post(
            "/kakao/link/callback",
            form: ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "chat", "product_id": id]
        )
        try #require(response.status == 200)
    }

    /// Returns the state of webhooks.
    package func webhookStatus() async throws -> JSONValue {
        try #require(try await get("/v1/webhooks").json)
    }

    /// Returns the longest time for which an event has waited for its webhook, in seconds.
    package func webhookLag() async throws -> Double {
        let sources = try await webhookStatus()["sources"]?.array ?? []
        return sources.compactMap { $0["lag_seconds"]?.number?.double }.max() ?? .infinity
    }

    /// Returns the state of the endpoint.
    package func endpointState() async throws -> String? { try await webhookStatus()["state"]?.string }
}
