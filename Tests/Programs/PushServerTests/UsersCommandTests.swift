import HTTPClient
import JSON
import KakaoSandbox
import ServiceTesting
import TestSupport
import Testing

/// Tests of the commands that look up users and pushes, as processes.
@Suite(.timeLimit(.minutes(5))) struct UsersCommandTests {
    @Test("The commands show a user's result in a push, the user's pushes, and the failed users of a push")
    func lookups() async throws {
        try await withService { service in
            try await service.database.addPhones(1...3)
            service.kakao.fail("send", status: 404, code: -404) { $0.message = "words" }
            let push = try await service.api.create(uuids([1, 2, 3]), gcm(), ["name": "sale"])
            try await service.api.waitUntilDone(push)
            let id = try #require(push.split(separator: "/").last.map(String.init))
            let pushes = OperatorCommand("pushes", service.api.url)
            let users = OperatorCommand("users", service.api.url)

            let shown = try await pushes.run(["user", id, "2"])
            #expect(shown.code == 0, "\(shown)")
            #expect(shown.lines.contains("user state        failed"), "\(shown.output)")
            #expect(shown.lines.contains("Kakao's response  404 -404 words"), "\(shown.output)")
            let json = try await pushes.run(["user", id, "2", "--json"])
            #expect(try JSONValue(parsing: json.output)["code"] == -404)
            let unknown = try await pushes.run(["user", id, "4"])
            #expect(unknown.code == 1)
            #expect(unknown.errors.contains("not in the push"))

            let list = try await users.run(["pushes", "2"])
            #expect(list.lines.count == 2)
            #expect(list.lines.last?.contains("sale  done        failed      404 -404 words") == true, "\(list.output)")
            #expect(try await users.run(["pushes", "2", "--json"]).lines.count == 1)
            #expect(try await users.run(["pushes", "2", "--since", "2100-01-01T00:00:00Z", "--json"]).lines == [])

            let failed = ["users", id, "--state", "failed", "--reason", "Test"]
            #expect(try await pushes.run(failed + ["--format", "text"]).output == "1\n2\n3\n")
            #expect(try await pushes.run(failed).lines.first?.hasPrefix("user_id,cause,") == true)
            let unreached = ["users", id, "--state", "skipped", "--reason", "Test", "--format", "text"]
            #expect(try await pushes.run(unreached).output == "")
            #expect(try await pushes.run(unreached + ["--cause", "no_device", "--cause", "excluded"]).output == "")
            #expect(try await pushes.run(unreached + ["--cause", "night"]).code == 64)
        }
    }

    @Test("An export that is cut off prints what has arrived, and fails")
    func cutExport() async throws {
        try await withService { service in
            let push = try await service.api.create(uuids([1, 2]))
            try await service.api.waitUntilDone(push)
            let relay = try Relay(to: service.api.url) { _, answer in Array(answer.dropLast()) }
            let id = try #require(push.split(separator: "/").last.map(String.init))
            let export = ["users", id, "--state", "skipped", "--reason", "Test", "--format", "text"]
            let result = try await OperatorCommand("pushes", relay.url).run(export)
            #expect(result.code == 1 && result.output.hasPrefix("1\n2\n"), "\(result)")
            #expect(try await OperatorCommand("pushes", service.api.url).run(export).code == 0)
        }
    }

    @Test("Pushes are listed by name, key, time and whether they have ended")
    func filters() async throws {
        try await withService { service in
            let done = try await service.api.create(uuids([1]), gcm(), ["name": "sale 1"])
            try await service.api.waitUntilDone(done)
            _ = try await service.api.create(uuids([1]), gcm(), ["name": "sale 2", "send_at": time(in: 3600)])
            _ = try await service.api.create(uuids([1]), gcm(), ["name": "news", "send_at": time(in: 3600)])
            let pushes = OperatorCommand("pushes", service.api.url)
            func names(_ options: [String]) async throws -> [String?] {
                let lines = try await pushes.run(["list", "--json"] + options).lines
                return try lines.map { try JSONValue(parsing: $0)["name"]?.string }
            }
            #expect(try await names(["--name", "sale"]) == ["sale 2", "sale 1"])
            #expect(try await names(["--unfinished"]) == ["news", "sale 2"])
            #expect(try await names(["--created-by", "operator.key", "--unfinished", "--name", "s"]) == ["sale 2"])
            #expect(try await names(["--created-by", "nobody"]) == [])
            #expect(try await names(["--since", "2100-01-01T00:00:00Z"]) == [])
            #expect(try await names(["--until", "2000-01-01T00:00:00Z"]) == [])
        }
    }
}
