import EventLoop
import Glibc
import HTTPClient
import ServiceTesting
import TestSupport
import Testing

@testable import Webhooks

/// Requests to endpoints, without a database.
@Suite struct WebhookSenderTests {
    @Test("A server that was suspended for longer than a request may take does not blame the endpoint")
    func suspended() async throws {
        let listener = try SilentListener()
        let endpoint = WebhookEndpoint(
            name: "silent",
            url: try #require(WebhookURL("http://127.0.0.1:\(listener.port)/webhooks")),
            secrets: [try #require(WebhookSecret(WebhookSecrets.first))],
            types: WebhookTypes()
        )
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdown() }
        let loop = group.loops[0]
        let sender = WebhookSender(
            client: HTTPClient(settings: WebhookSender.clientSettings, loop: loop),
            timeLimit: .milliseconds(500)
        )
        let attempt = Task(executorPreference: loop) { await sender.send(.test(), to: endpoint) }
        await Task(executorPreference: loop) { _ = usleep(1_250_000) }.value
        #expect(await attempt.value.outcome == .abandoned)
        await sender.client.shutdown()
    }
}
