import JSON
import KakaoSandbox
import Server
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
            let (api, kakao) = (service.api, service.kakao)
            let webhooks = OperatorCommand("webhooks", api.url)
            let tested = try await webhooks.run(["test"])
            #expect(tested.code == 0 && tested.output.contains("200"), "\(tested)")
            try await api.linkCallback("1")
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 1)
            try await eventually("it is stored that it was delivered") {
                try await service.database.count("webhook_events WHERE state = 'delivered'") == 1
            }
            let well = try await webhooks.run(["status"])
            #expect(well.code == 0 && well.output.contains("delivering since"), "\(well)")
            let replayed = try await webhooks.run(["replay", "--since", "2026-01-01T00:00:00Z", "--type", "link.*"])
            #expect(replayed.code == 0, "\(replayed)")
            try await eventually("the webhook arrives again") {
                kakao.sandbox.webhooks().count { $0.type == "link.callback.received" } == 2
            }
            #expect(try await webhooks.run(["replay"]).code != 0)
            kakao.failWebhooks(status: 503)
            let refused = try await webhooks.run(["test"])
            #expect(refused.code == 2 && refused.output.contains("503"), "\(refused)")
            try await api.linkCallback("2")
            try await eventually("the endpoint is failing") { try await api.endpointState() == "failing" }
            let failing = try await webhooks.run(["status"])
            #expect(failing.code == 2 && failing.output.contains("HTTP 503"), "\(failing)")
            #expect(try await webhooks.run(["cancel-replays"]).code == 0)
            let json = try await webhooks.run(["status", "--json"])
            #expect(try JSONValue(parsing: json.output)["endpoints"]?.array?.first?["state"] == "failing")
        }
    }

    @Test("Each command names an endpoint with --endpoint; test needs it if there are several")
    func severalEndpoints() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.sendWebhooks(to: kakao)
            settings.sendWebhooks(to: kakao, as: "billing")
            try await RunningServer.with(settings) { api in
                let webhooks = OperatorCommand("webhooks", api.url)
                let unnamed = try await webhooks.run(["test"])
                #expect(unnamed.code != 0 && unnamed.errors.contains("one of default, billing"), "\(unnamed)")
                let tested = try await webhooks.run(["test", "--endpoint", "billing"])
                #expect(tested.code == 0 && tested.output.contains("endpoint   billing"), "\(tested)")
                let all = try await webhooks.run(["status"])
                #expect(all.code == 0 && all.output.contains("billing") && all.output.contains("default"), "\(all)")
                let one = try await webhooks.run(["status", "--endpoint", "billing"])
                #expect(one.code == 0 && one.output.contains("billing") && !one.output.contains("default"), "\(one)")
                #expect(try await webhooks.run(["status", "--endpoint", "other"]).code == 2)
                try await api.linkCallback("1")
                try await eventually("both get it") { kakao.webhooks(.linkCallbackReceived).count == 2 }
                try await eventually("it is stored that they did") {
                    try await database.count("webhook_events WHERE state = 'delivered'") == 2
                }
                let replay = ["replay", "--since", "2026-01-01T00:00:00Z", "--endpoint"]
                #expect(try await webhooks.run(replay + ["billing"]).code == 0)
                try await eventually("that of one endpoint arrives again") {
                    kakao.webhookBodies.values.map(\.count).sorted().suffix(2) == [1, 2]
                }
                let unknown = try await webhooks.run(replay + ["other"])
                #expect(unknown.code != 0 && unknown.errors.contains("one of default, billing"), "\(unknown)")
            }
        }
    }

    @Test("All that the state says is printed")
    func rows() throws {
        let webhooks: JSONValue = [
            "endpoints": [
                [
                    "name": "billing", "url": "https://backend.example.com/hooks", "state": "failing",
                    "since": "2026-11-21T08:15:30Z", "last_error": "HTTP 500: \u{1B}oops",
                    "last_error_at": "2026-11-21T08:15:30Z", "pending": 10_000,
                    "lag_seconds": .number(try #require(JSONNumber(75.5))),
                ],
                [
                    "name": "old", "url": .null, "state": "removed", "since": "2026-11-21T08:15:30Z", "pending": 0,
                    "lag_seconds": 0,
                ],
            ],
            "replays": [["endpoint": "billing", "since": "2026-11-20T00:00:00Z", "until": "2026-11-21T00:00:00Z"]],
            "items": [
                ["id": "msg_1", "endpoint": "billing", "state": "failed", "attempts": 10, "last_error": "HTTP 400"]
            ],
            "next": .null,
        ]
        #expect(
            Text.table(try ShownWebhooks.rows(webhooks)) == [
                "billing            https://backend.example.com/hooks",
                "  state            failing since 2026-11-21T08:15:30Z",
                "  last error       HTTP 500: ?oops at 2026-11-21T08:15:30Z",
                "  waiting          10,000 or more, the oldest due for 1 min 16 s",
                "old                not in the settings of this server",
                "  state            removed since 2026-11-21T08:15:30Z", "  waiting          none",
                "replay to billing  from 2026-11-20T00:00:00Z to 2026-11-21T00:00:00Z",
                "msg_1              failed after 10 attempts at billing: HTTP 400",
            ]
        )
        #expect(!ShownWebhooks.areDelivered(webhooks) && !ShownWebhooks.areDelivered(["endpoints": []]))
        #expect(throws: CommandFailure.self) { try ShownWebhooks.rows(["push": 1]) }
    }
}
