import HTTPClient
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

/// Tests of `push-server messages` as a process, against a server over a real socket.
@Suite(.timeLimit(.minutes(5))) struct MessagesCommandTests {
    private static func with(_ body: (TestService, OperatorCommand) async throws -> Void) async throws {
        try await withAccounts { service in
            try service.kakao.sandbox.befriend(1, [101, 102])
            try #require(try await service.logIn(1).status == 200)
            try await body(service, OperatorCommand("messages", service.api.url))
        }
    }

    @Test("A message to oneself is one line; its id leads to what became of it")
    func memo() async throws {
        try await Self.with { service, messages in
            let sent = try await messages.run([
                "send", "--sender", "1", "--text", "Disk full", "--link", "https://shop.example.com",
            ])
            #expect(sent.code == 0, "\(sent)")
            let id = try #require(sent.lines.first)
            try await eventually("the message has ended") {
                try await service.api.get("/v1/messages/\(id)").json?["state"] == "done"
            }
            let shown = try await messages.run(["show", id])
            #expect(shown.output.contains("state            done"), "\(shown.output)")
            let listed = try await messages.run(["list", "--json", "--sender", "1"])
            #expect(try JSONValue(parsing: listed.output)["id"]?.string == id)
            #expect(try await messages.run(["list"]).lines.count == 2)
            #expect(service.kakao.sandbox.talkMessages().count == 1)
            let later = ["--at", "2100-01-01T00:00:00Z"]
            let scheduled = try await messages.run(["send", "--sender", "1", "--template-id", "7"] + later)
            #expect(scheduled.code == 0, "\(scheduled)")
            let waiting = try await messages.run(["list", "--state", "scheduled"])
            #expect(waiting.lines.last == "  at 2100-01-01T00:00:00.000Z", "\(waiting)")
        }
    }

    @Test("Receivers who were not reached are shown with the reason and the remedy")
    func failed() async throws {
        try await Self.with { service, messages in
            let arguments = [
                "send", "--sender", "1", "--user", "101", "--user", "103", "--template-id", "7", "--arg", "name=Kim",
            ]
            let preview = try await messages.run(arguments + ["--dry-run"])
            #expect(preview.lines.count == 3, "\(preview)")
            #expect(preview.output.contains("not_in_friends_list"))
            let id = try #require(try await messages.run(arguments).lines.first)
            try await eventually("the message has ended") {
                try await service.api.get("/v1/messages/\(id)").json?["state"] == "done"
            }
            let shown = try await messages.run(["show", id])
            #expect(shown.output.contains("103       failed  not_in_friends_list"), "\(shown.output)")
            #expect(service.kakao.sandbox.talkMessages().map(\.receiverID) == [101])
        }
    }

    @Test(
        "Options that do not go together are rejected before a request",
        arguments: [
            [], ["--text", "a"], ["--template-id", "7", "--text", "a", "--link", "https://a.example"],
            ["--template-id", "7", "--user", "2", "--friend", "u"], ["--template-id", "7", "--arg", "a"],
            ["--page", "https://a.example", "--arg", "a=b"], ["--template-id", "7", "--at", "tomorrow"],
        ]
    )
    func invalid(arguments: [String]) async throws {
        let result = try await OperatorCommand("messages", "http://127.0.0.1:1").run(
            ["send", "--sender", "1"] + arguments
        )
        #expect(result.code == 64, "\(result)")
    }
}
