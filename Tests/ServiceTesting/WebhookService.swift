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
    /// Makes the sandbox the endpoint `default` of webhooks, with short intervals.
    package mutating func sendWebhooks(to kakao: TestKakao, path: String = "/webhooks?token=hidden") {
        webhooks.url = WebhookURL(kakao.sandbox.url + path)
        webhooks.secret = WebhookSecret(WebhookSecrets.first)
        webhooks.intervals.work = WorkIntervals(lease: .seconds(2))
        webhooks.intervals.firstProbe = .milliseconds(50)
        webhooks.intervals.longestProbe = .milliseconds(200)
        webhooks.intervals.retries = [.milliseconds(100), .milliseconds(100), .milliseconds(100)]
        webhooks.intervals.replay = .milliseconds(100)
    }

    /// Makes another sandbox a further endpoint, which signs with the second secret.
    ///
    /// - Parameter types: The types that it gets; empty for all.
    package mutating func sendWebhooks(to kakao: TestKakao, as name: String, types: [String] = []) {
        guard let url = WebhookURL(kakao.sandbox.url + "/webhooks"), let types = WebhookTypes(types),
            let secret = WebhookSecret(WebhookSecrets.second)
        else { preconditionFailure("the endpoint \(name) of a test is invalid") }
        webhooks.endpoints.append(WebhookEndpoint(name: name, url: url, secrets: [secret], types: types))
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

    /// The resource ids of the callbacks that have arrived, each once, in the order of their first arrival.
    package var callbackWebhooks: [String] {
        webhooks(.linkCallbackReceived).compactMap { $0.json?["data"]?["resource_id"]?.string }
    }

    /// The bodies that arrived with each `webhook-id`.
    package var webhookBodies: [String: [String]] {
        Dictionary(grouping: sandbox.webhooks(), by: \.id).mapValues { $0.map(\.body) }
    }

    /// Makes the endpoint fail requests from now on. Returns the id of the fault for ``KakaoSandbox/removeFault(_:)``.
    @discardableResult
    package func failWebhooks(
        _ kind: Fault.Kind = .status,
        status: Int? = nil,
        times: Int? = nil,
        _ adjust: (inout Fault) -> Void = { _ in }
    ) -> Int {
        var fault = Fault(kind)
        fault.path = "/webhooks"
        fault.status = status
        fault.times = times
        adjust(&fault)
        return sandbox.add(fault) ?? 0
    }

    /// Holds the responses to webhooks back until ``release(_:)``. The webhooks arrive at once.
    package func holdWebhooks() -> Int { failWebhooks(.latency) { $0.milliseconds = 600_000 } }

    /// The number of requests with webhooks, including failed ones.
    package var webhookRequests: Int { sandbox.stats.requests["/webhooks"] ?? 0 }
}

extension ReceivedWebhook {
    /// The object that it is about.
    package var subject: String { json?["subject"]?.string ?? "" }

    /// The order of the webhooks about an object.
    package var revision: Int64 { json?["revision"]?.integer ?? 0 }

    /// Returns whether the signatures are those of these secrets, in this order.
    package func isSigned(by secrets: String...) -> Bool {
        let signed = Array("\(id).\(header("webhook-timestamp") ?? "").\(body)".utf8)
        let signatures = secrets.compactMap { WebhookSecret($0)?.signature(of: signed) }
        return header("webhook-signature") == signatures.joined(separator: " ")
    }
}

extension TestClient {
    /// Calls as Kakao does when a message has reached a chat room.
    ///
    /// - Parameter product: The argument `product_id`; `nil` for `id`.
    package func linkCallback(_ id: String, product: String? = nil) async throws {
        let caller = with("KakaoAK \(Keys.admin)")
        var kakao = caller
        kakao.headerFields[.unvalidated("X-Kakao-Resource-ID")] = id
        let response = try await kakao.post(
            "/kakao/link/callback",
            form: ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "chat", "product_id": product ?? id]
        )
        try #require(response.status == 200)
    }

    /// Returns the state of webhooks.
    package func webhookStatus() async throws -> JSONValue {
        try #require(try await get("/v1/webhooks").json)
    }

    /// Returns an endpoint of webhooks; `nil` if there is none of this name.
    package func endpoint(_ name: String = "default") async throws -> JSONValue? {
        try await webhookStatus()["endpoints"]?.array?.first { $0["name"]?.string == name }
    }

    /// Returns the state of an endpoint.
    package func endpointState(_ name: String = "default") async throws -> String? {
        try await endpoint(name)?["state"]?.string
    }

    /// Returns the time for which the oldest webhook of an endpoint has been due, in seconds.
    package func webhookLag(_ name: String = "default") async throws -> Double {
        try await endpoint(name)?["lag_seconds"]?.number?.double ?? .infinity
    }

    /// Returns the webhooks that were not accepted.
    package func unacceptedWebhooks() async throws -> [JSONValue] {
        try await webhookStatus()["items"]?.array ?? []
    }
}
