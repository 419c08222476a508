import HTTPClient
import JSON
import KakaoSandbox
import ServiceTesting
import TestSupport
import Testing

@testable import push_server

/// Tests of `push-server status` and `push-server sender` as processes, against a server over a real socket.
@Suite(.timeLimit(.minutes(5))) struct StatusCommandTests {
    @Test("status says that all is well, or why nothing is sent; sender stops and starts")
    func stop() async throws {
        try await withService { service in
            let status = OperatorCommand("status", service.api.url)
            let sender = OperatorCommand("sender", service.api.url)
            try await service.api.waitUntilDone(service.push([1]))
            let well = try await status.run([])
            #expect(well.code == 0, "\(well)")
            #expect(well.lines.first?.hasSuffix("running") == true)
            #expect(well.output.contains("0 failed") && well.output.contains("PostgreSQL"), "\(well.output)")
            let stopped = try await sender.run(["stop", "--reason", "Wrong text"])
            #expect(stopped.code == 0, "\(stopped)")
            #expect(stopped.output.contains("Wrong text"))
            let shown = try await status.run([])
            #expect(shown.code == 2)
            #expect(shown.output.contains("stopped") && shown.output.contains("sender start"), "\(shown.output)")
            let json = try await status.run(["--json"])
            #expect(json.code == 2)
            #expect(try JSONValue(parsing: json.output)["sender"]?["stopped_by"] == "operator.key")
            let started = try await sender.run(["start"])
            #expect(started.code == 0 && started.output.contains("running"), "\(started)")
            #expect(try await sender.run(["stop"]).code != 0)
        }
    }

    @Test("A problem is printed with the id of its request, under which the server's log has more")
    func requestID() async throws {
        try await withService { service in
            let failed = try await OperatorCommand("status", service.api.url, key: "kps_unknown").run([])
            #expect(failed.code == 1)
            // push-server: Missing, invalid or expired credentials. … (request 7c41…)
            let words = failed.errors.split(separator: " (request ")
            let id = try #require(words.last?.split(separator: ")").first, "\(failed.errors)")
            let line = await service.log.line { $0.metadata["request_id"] == String(id) }
            #expect(line.message == "GET /v1/status 401")
        }
    }

    @Test(
        "An address that is no URL of a server is an invalid argument: exit code 64",
        arguments: ["ftp://x", "x", ""]
    )
    func invalidAddress(url: String) async throws {
        let failed = try await OperatorCommand("status", url).run([])
        #expect(failed.code == 64 && failed.errors.contains("SERVER_URL"), "\(failed)")
    }

    @Test("status exits with 2 while a push is halted, and shows the oldest that needs somebody with its reason")
    func halted() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let status = OperatorCommand("status", service.api.url)
            var pushes: [String] = []
            for name in ["first", "second", "third"] {
                let more: JSONObject = ["send_at": "2099-01-01T00:00:00Z", "name": .string(name)]
                pushes.append(try await service.api.create(uuids([1]), gcm(), more))
            }
            let ids = pushes.map { $0.split(separator: "/").last.map(String.init) ?? "" }
            #expect(try await service.api.post("\(pushes[0])/pause").status == 200)
            let paused = try await status.run(["--json"])
            #expect(paused.code == 0, "\(paused)")
            let shown = try JSONValue(parsing: paused.output)["pushes"]
            #expect(shown?["attention"]?.array?.map { $0["id"]?.string } == [ids[0]])
            try await service.database.pool.write(
                "UPDATE pushes SET state = 'halted', reason = 'wrong appKey' WHERE id IN ('\(ids[1])', '\(ids[2])')"
            )
            var halted = paused
            try await eventually("the status shows it") {
                halted = try await status.run([])
                return halted.code == 2 && halted.output.contains(ids[1])
            }
            #expect(halted.output.contains("2 halted") && halted.output.contains("1 paused"), "\(halted)")
            #expect(halted.output.contains("\(ids[1]) (second)") && !halted.output.contains(ids[2]), "\(halted)")
            #expect(halted.output.contains("wrong appKey") && halted.output.contains("resume"), "\(halted)")
        }
    }

    @Test("All that the status says is printed")
    func rows() throws {
        let status: JSONValue = [
            "sender": [
                "state": "halted", "reason": "KakaoAK is \u{1B}wrong", "remedy": "Check the key.", "stopped_at": .null,
                "stopped_by": .null,
            ],
            "pushes": [
                "states": ["proposed": 1, "scheduled": 0, "preparing": 0, "sending": 1200, "paused": 0, "halted": 2],
                "attention": [
                    [
                        "id": "01a2", "name": "Sale\u{1B}", "state": "halted", "reason": "wrong appKey",
                        "remedy": "Resume it.",
                        "created_at": "2026-11-21T08:15:30Z",
                    ]
                ],
            ],
            "messages": ["states": ["scheduled": 0, "sending": 0], "attention": []],
            "backlog": ["batches": 1200, "oldest_seconds": .number(try #require(JSONNumber(75.5)))],
            "webhook_endpoints": [
                ["name": "crm", "state": "delivering", "since": "2026-11-20T08:15:30Z", "lag_seconds": 0],
                [
                    "name": "billing", "state": "failing", "since": "2026-11-21T08:15:30Z", "last_error": "HTTP 503",
                    "lag_seconds": 75,
                ],
            ],
            "journal": ["open": true, "records": 3, "oldest_seconds": 9, "rejected": 2],
            "database": [
                "up": false, "state": "not_committing", "waiting": 7,
                "waits": [["event": "SyncRep", "sessions": 3, "seconds": 12]],
                "replica": ["state": "behind", "lag_seconds": 75],
            ],
            "kakao": [
                "state": "refusing", "last_call_at": "2026-11-21T08:15:30Z", "last_error": "halt",
                "last_error_at": "2026-11-21T08:15:30Z", "calls": 40, "failed_calls": 4, "mean_milliseconds": 12,
                "calls_this_month": 2_500_000, "calls_per_month": 3_000_000,
            ],
            "servers": [
                ["host": "a", "version": "1.0", "uptime_seconds": 60],
                ["host": "b", "version": "1.1", "uptime_seconds": 5],
            ],
        ]
        let lines = Text.table(try ShownStatus.rows(status))
        #expect(
            lines == [
                "sender           halted; nothing is sent: PostgreSQL does not commit",
                "  reason         KakaoAK is ?wrong", "  remedy         Check the key.",
                "pushes           1 proposed, 1,200 sending, 2 halted",
                "  oldest halted  01a2 (Sale?), of 2026-11-21T08:15:30Z", "    reason       wrong appKey",
                "    remedy       Resume it.", "messages         none unfinished",
                "waiting batches  1,200, the oldest due for 1 min 16 s",
                "webhooks         1 of 2 endpoints accept them",
                "  billing        failing since 2026-11-21T08:15:30Z, the oldest due for 1 min 15 s",
                "    reason       HTTP 503",
                "journal          open, 3 calls wait, the oldest for 9 s, 2 rejected (push-server journal show)",
                "PostgreSQL       does not commit, 7 statements wait",
                "  waits for      SyncRep in 3 sessions, for up to 12 s",
                "  replica        is not read, 1 min 15 s behind", "Kakao            refusing",
                "  calls          40 in 5 min, 4 failed, 12 ms on average",
                "  last error     halt at 2026-11-21T08:15:30Z", "  this month     2,500,000 of 3,000,000",
                "servers          a 1.0, up for 1 min 0 s", "                 b 1.1, up for 5 s",
            ]
        )
        #expect(!ShownStatus.isHealthy(status))
        var healthy: JSONObject = ["sender": ["state": "running"], "database": ["up": true]]
        #expect(ShownStatus.isHealthy(.object(healthy)))
        healthy["webhook_endpoints"] = status["webhook_endpoints"]
        #expect(!ShownStatus.isHealthy(.object(healthy)))
        healthy["webhook_endpoints"] = []
        healthy["journal"] = ["open": true, "rejected": 1]
        #expect(!ShownStatus.isHealthy(.object(healthy)))
        let down: JSONValue = ["sender": ["state": "running"], "database": ["up": false, "state": "unreachable"]]
        #expect(
            try ShownStatus.rows(down).first == ["sender", "running; nothing is sent: PostgreSQL does not respond"]
        )
        #expect(throws: CommandFailure.self) { try ShownStatus.rows(["push": 1]) }
    }
}
