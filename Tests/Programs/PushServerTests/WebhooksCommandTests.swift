import JSON
import KakaoSandbox
import ServiceTesting
import TestSupport
import Testing

@testable import Runtime
@testable import push_server

/// Tests of `push-server webhooks` as a process, against a server over a real socket.
@Suite(.timeLimit(.minutes(5))) struct WebhooksCommandTests {
    @Test("status, test and replay show what the endpoint does; the exit code says whether it accepts webhooks")
    func commands() async throws {
        try await withWebhooks { service in
            let webhooks = OperatorCommand("webhooks", service.api.url)
            let tested = try await webhooks.run(["test"])
            #expect(tested.code == 0 && tested.output.contains("200"), "\(tested)")
            try await service.api.linkCallback("1")
            _ = try await service.kakao.webhooks(.linkCallbackReceived, count: 1)
            try await eventually("the cursor is stored") { try await service.api.webhookLag() == 0 }
            let well = try await webhooks.run(["status"])
            #expect(well.code == 0 && well.output.contains("all delivered"), "\(well)")
            let replayed = try await webhooks.run(["replay", "--since", "2026-01-01T00:00:00Z", "--type", "link.*"])
            #expect(replayed.code == 0, "\(replayed)")
            try await eventually("the webhook arrives again") {
                service.kakao.sandbox.webhooks().count { $0.type == "link.callback.received" } == 2
            }
            #expect(try await webhooks.run(["replay"]).code == 1)
            var fault = Fault(.status)
            (fault.path, fault.status) = ("/webhooks", 503)
            service.kakao.sandbox.add(fault)
            let refused = try await webhooks.run(["test"])
            #expect(refused.code == 2 && refused.output.contains("503"), "\(refused)")
            try await service.api.linkCallback("2")
            try await eventually("the endpoint is failing") { try await service.api.endpointState() == "failing" }
            let failing = try await webhooks.run(["status"])
            #expect(failing.code == 2 && failing.output.contains("HTTP 503"), "\(failing)")
            #expect(try await webhooks.run(["replay", "--since", "2026-01-01T00:00:00Z"]).code == 0)
            #expect(try await webhooks.run(["status"]).output.contains("replay of callbacks  from 2026-01-01T00"))
            #expect(try await webhooks.run(["cancel-replays"]).code == 0)
            #expect(try await !webhooks.run(["status"]).output.contains("replay of"))
            let json = try await webhooks.run(["status", "--json"])
            #expect(try JSONValue(parsing: json.output)["state"] == "failing")
        }
    }

    @Test("All that the state says is printed")
    func rows() throws {
        let webhooks: JSONValue = [
            "endpoint": "https://backend.example.com/hooks", "state": "failing", "since": "2026-11-21T08:15:30Z",
            "last_error": "HTTP 500: \u{1B}oops", "last_error_at": "2026-11-21T08:15:30Z",
            "sources": [
                ["source": "callbacks", "types": [], "lag_seconds": .number(try #require(JSONNumber(75.5)))],
                ["source": "pushes", "types": [], "lag_seconds": 0],
            ],
            "items": [["id": "msg_pushes_1_2", "state": "failed", "attempts": 10, "last_error": "HTTP 400"]],
            "next": .null,
        ]
        #expect(
            Text.table(try ShownWebhooks.rows(webhooks)) == [
                "endpoint        https://backend.example.com/hooks", "state           failing",
                "  since         2026-11-21T08:15:30Z", "  last error    HTTP 500: ?oops at 2026-11-21T08:15:30Z",
                "callbacks       waiting for 1 min 16 s", "pushes          all delivered",
                "msg_pushes_1_2  failed after 10 attempts: HTTP 400",
            ]
        )
        #expect(throws: CommandFailure.self) { try ShownWebhooks.rows(["push": 1]) }
    }
}
