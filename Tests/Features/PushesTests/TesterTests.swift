import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Pushes

/// Tests of pushes to testers.
@Suite(.timeLimit(.minutes(5))) struct TesterTests {
    private static func body(_ message: JSONValue = gcm(), _ more: JSONObject = [:]) -> JSONValue {
        var body: JSONObject = ["to_testers": true, "message": message]
        for (name, value) in more.members { body[name] = value }
        return .object(body)
    }

    /// Runs `body` with a server whose testers are the users 1 and 2 of twenty, and with a limit of no user.
    private static func withTesters(
        _ adjust: (inout Settings) -> Void = { _ in },
        _ body: (TestService) async throws -> Void
    ) async throws {
        try await withService {
            $0.pushes.testers = [1, 2]
            $0.pushes.approvalAboveUsers = 0
            adjust(&$0)
        } _: { service in
            try await service.database.addPhones(1...20)
            try await body(service)
        }
    }

    /// Sends a message to the testers, and returns the path of the push.
    private static func test(_ service: TestService, _ message: JSONValue = gcm()) async throws -> String {
        let answer = try await service.api.post("/v1/pushes", json: body(message))
        #expect(answer.status == 202, "\(answer.text)")
        let push = try #require(answer.headerFields[.location])
        try await service.api.waitUntilDone(push)
        return push
    }

    @Test("A push to testers reaches only them, and needs no approval")
    func testers() async throws {
        try await Self.withTesters { service in
            let push = try await service.api.shown(try await Self.test(service))
            #expect(push["to_testers"] == true)
            #expect(push["audience"] == ["uuids": ["1", "2"]])
            #expect(push["counted_users"] == .null)
            #expect(push["users"] == counts(2, sent: 2))
            #expect(service.kakao.reachedOnce(1...2))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 2)
            let dry = try await service.api.post("/v1/pushes", json: Self.body(gcm(), ["dry_run": true])).json
            #expect(dry?["users"]?["total"] == 2)
            #expect(dry?["needs_approval"] == false)
            let other = try await service.api.create()
            #expect(try await service.api.shown(other)["to_testers"] == false)
        }
    }

    @Test("Testers and an audience exclude each other, one of them is required, and the settings have to name testers")
    func invalid() async throws {
        try await Self.withTesters { service in
            let both = try await service.api.post(
                "/v1/pushes",
                json: Self.body(gcm(), ["audience": ["everyone": true]])
            )
            #expect(both.field == "audience")
            #expect(both.json?["allowed"] == "absent")
            let neither = try await service.api.post("/v1/pushes", json: ["message": gcm(), "to_testers": false])
            #expect(neither.field == "audience")
            var settings = service.settings
            settings.pushes.testers = []
            await service.server.reload(settings)
            let none = try await service.api.post("/v1/pushes", json: Self.body())
            #expect(none.status == 409)
            #expect(none.problem == "not-configured")
            #expect(none.json?["detail"]?.string?.contains("pushes.testers") == true)
            #expect(try await service.database.count("pushes") == 0)
        }
    }

    @Test("A push, its creation and its dry run show when the same message was last sent to testers")
    func lastTest() async throws {
        try await Self.withTesters {
            $0.pushes.approvalAboveUsers = nil
        } _: { service in
            func shown(_ message: JSONValue) async throws -> [JSONValue?] {
                let dry = pushBody(["everyone": true], message, ["dry_run": true])
                let preview = try await service.api.post("/v1/pushes", json: dry)
                let later = pushBody(["everyone": true], message, ["send_at": time(in: 3600)])
                let created = try await service.api.post("/v1/pushes", json: later)
                let push = try #require(created.headerFields[.location])
                let listed = try await service.api.get("/v1/pushes", ["limit": "1"]).json?["items"]?.array?.first
                let answers = [preview.json, created.json, try await service.api.shown(push), listed]
                return answers.map { $0?["last_tested_at"] }
            }
            let apns: JSONValue = ["for_apns": ["message": "m"]]
            #expect(try await shown(gcm("tested")) == [.null, .null, .null, .null])
            let failed = service.kakao.fail("send", status: 400, code: -8)
            let rejected = try await Self.test(service, gcm("tested"))
            #expect(try await service.api.users(rejected)?["failed"] == 2)
            service.kakao.sandbox.removeFault(failed)
            #expect(try await shown(gcm("tested")) == [.null, .null, .null, .null])

            let first = try await service.api.shown(try await Self.test(service, gcm("tested")))["started_at"]
            #expect(first?.string != nil)
            #expect(try await shown(gcm("tested")) == [first, first, first, first])
            #expect(try await shown(gcm("other")) == [.null, .null, .null, .null])
            // A test after a push was sent does not count for that push.
            let sent = try await service.api.create(["everyone": true], gcm("tested"))
            try await service.api.waitUntilDone(sent)
            let second = try await service.api.shown(try await Self.test(service, gcm("tested")))["started_at"]
            #expect(second != first)
            #expect(try await service.api.shown(sent)["last_tested_at"] == first)
            #expect(try await shown(gcm("tested")) == [second, second, second, second])

            // The same text in the format of the other version of Kakao's API is another message.
            try await service.database.addPhones(1...2, type: "apns")
            _ = try await Self.test(service, apns)
            #expect(try await !shown(apns).contains(.null))
            let native = try await service.api.post(
                "/v2/push/send",
                form: ["uuids": "[1]", "push_message": apns.description]
            )
            let path = try #require(native.headerFields[.location])
            #expect(try await service.api.shown(path)["last_tested_at"] == .null)
        }
    }

    @Test("The last test of a message is found by an index")
    func index() async throws {
        try await TestDatabase.with { database in
            try await database.pool.write(
                """
                INSERT INTO pushes (id, state, audience, message, message_version, started_at, to_testers)
                SELECT gen_random_uuid(), 'done', '{}', 'message ' || number, 'v1', now(), number % 2 = 0
                FROM generate_series(1, 20000) AS number
                """
            )
            try await database.pool.write("INSERT INTO push_counts SELECT id, 0, 'sent', 1, 1 FROM pushes")
            try await database.pool.write("ANALYZE pushes, push_counts")
            try await database.pool.withTransaction { transaction in
                for (message, isTested) in [("message 4", true), ("message 5", false), ("message", false)] {
                    let rows = try await transaction.query(
                        "SELECT message_tested_before($1, 'v1', NULL) IS NOT NULL",
                        [.text(message)]
                    )
                    #expect(try rows.first?.decode(Bool.self) == isTested, "\(message)")
                }
                let scans = try await transaction.query(
                    "SELECT seq_scan, idx_scan FROM pg_stat_xact_user_tables WHERE relname = 'pushes'",
                    []
                )
                let (whole, byIndex) = try #require(scans.first).decode(Int64.self, Int64.self)
                #expect(whole == 0)
                #expect(byIndex == 3)
            }
        }
    }

    @Test("Advertising is tested at night too, with its mark and to testers who have consented")
    func advertising() async throws {
        try await Self.withTesters {
            // An hour that is over or has yet to begin.
            let hour = (Int(Date().timeIntervalSince1970) / 3600 + 9 + 12) % 24
            $0.pushes.advertisingHours.begins = hour * 3600
            $0.pushes.advertisingHours.ends = hour * 3600 + 3600
            $0.pushes.advertisingTag = "consent"
        } _: { service in
            try await service.database.pool.write("UPDATE devices SET tags = '{consent}' WHERE user_id IN (2, 3)")
            let kind: JSONObject = ["kind": "advertising"]
            let unmarked = try await service.api.post("/v1/pushes", json: Self.body(gcm(), kind))
            #expect(unmarked.field == "message")
            let marked: JSONValue = [
                "for_gcm": ["notification": ["body": "(광고) Sale"], "custom_field": ["marker": "m"]]
            ]
            let answer = try await service.api.post("/v1/pushes", json: Self.body(marked, kind))
            let push = try #require(answer.headerFields[.location])
            #expect(try await service.api.shown(push)["waits_until"] == .null)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(1, sent: 1))
            #expect(service.kakao.reachedOnce([2]))
            // Others wait for their hours.
            var settings = service.settings
            settings.pushes.approvalAboveUsers = nil
            await service.server.reload(settings)
            let other = try await service.api.create(uuids([3]), marked, kind)
            #expect(try await service.api.shown(other)["waits_until"] != .null)
            #expect(try await service.api.shown(other)["last_tested_at"] != .null)
        }
    }

    @Test("watch says which testers were left out, and why")
    func leftOut() async throws {
        try await Self.withTesters {
            $0.pushes.advertisingTag = "consent"
        } _: { service in
            let pushes = OperatorCommand("pushes", service.api.url)
            let message = #"{"for_gcm":{"notification":{"body":"(광고) Sale"}}}"#
            let send = ["send", "--to-testers", "--kind", "advertising", "--message", message, "--watch"]
            let none = try await pushes.run(send)
            #expect(none.code == 0 && none.lines.last == "done 100% 0/0 users", "\(none)")
            let reason = "without consent to advertising (pushes.advertising_tag)"
            #expect(none.errors.hasSuffix("The push was sent to nobody.\nLeft out: 2 users \(reason).\n"), "\(none)")
            try await service.database.pool.write("UPDATE devices SET tags = '{consent}' WHERE user_id = 2")
            let one = try await pushes.run(send)
            #expect(one.lines.last == "done 100% 1/1 users", "\(one)")
            #expect(one.errors.hasSuffix("Left out: 1 user \(reason).\n") && !one.errors.contains("nobody"), "\(one)")
            // A key that reads only.
            let id = try #require(none.lines.first)
            let reader = OperatorCommand("pushes", service.api.url, key: try await service.operatorKey(.read))
            let read = try await reader.run(["watch", id])
            #expect(read.errors.hasSuffix("Left out: 2 users \(reason).\n"), "\(read)")
            let shown = try await reader.run(["show", id])
            #expect(
                shown.lines.contains { $0.hasPrefix("not reached") && $0.hasSuffix("2 users \(reason)") },
                "\(shown)"
            )
        }
    }

    @Test("The command sends to the testers, and its confirmation says when the message was last tested")
    func command() async throws {
        try await Self.withTesters { service in
            let pushes = OperatorCommand("pushes", service.api.url)
            let message = ["send", "--message", gcm().description]
            let asked = try await pushes.runOnTerminal(message + ["--everyone"], input: "n\n")
            #expect(asked.output.contains("The message was not sent to testers."), "\(asked)")
            let both = try await pushes.run(message + ["--to-testers", "--everyone", "--yes"])
            #expect(both.errors.contains("exactly one of"))
            // Testers are few, and known.
            let sent = try await pushes.runOnTerminal(message + ["--to-testers"])
            #expect(sent.code == 0, "\(sent)")
            let id = try #require(sent.lines.first?.filter { !$0.isWhitespace })
            try await service.api.waitUntilDone("/v1/pushes/\(id)")
            #expect(service.kakao.sandbox.reached(marker: "m").times == 2)
            let testedAt = try await service.api.shown("/v1/pushes/\(id)")["started_at"]?.string ?? "?"
            let again = try await pushes.runOnTerminal(message + ["--everyone", "--utc"], input: "n\n")
            #expect(again.output.contains("The message was last sent to testers at \(testedAt)."), "\(again)")
            let shown = try await pushes.run(["show", id])
            #expect(shown.output.contains("to_testers") && shown.output.contains(testedAt))
        }
    }
}
