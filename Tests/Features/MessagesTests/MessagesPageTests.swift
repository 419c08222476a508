import JSON
import ServiceTesting
import TestSupport
import Testing

/// Tests that run the commands of `docs/messages.md` unchanged, with `push-server dev`.
@Suite(.timeLimit(.minutes(5))) struct MessagesPageTests {
    @Test("The commands prepare a sender, and send a message that reaches its receiver")
    func commands() async throws {
        let preparation = try TestFiles.code(in: "docs/messages.md", after: "```sh\nSANDBOX=")
        let sending = try TestFiles.code(in: "docs/messages.md", after: "```sh\ncurl \"$SERVER_URL/v1/messages\"")
        let following = try TestFiles.code(in: "docs/messages.md", after: "```sh\ncurl \"$SERVER_URL/v1/messages/$ID\"")
        let show = try #require(following.split(separator: "\n").first)
        let script = """
            SANDBOX=\(preparation)
            message=$(curl -sS "$SERVER_URL/v1/messages"\(sending))
            ID=$(sed 's/.*"id":"\\([^"]*\\)".*/\\1/' <<<"$message")
            for attempt in {1..600}; do
                message=$(curl -sS "$SERVER_URL/v1/messages/$ID"\(show)
                )
                grep -q '"finished_at":null' <<<"$message" || break
                sleep 0.1
            done
            printf '\\n%s\\n' "$message"
            """
        let lines = try await DevServer.run(script)
        let message = try JSONValue(parsing: lines.last ?? "")
        #expect(message["state"] == "done" && message["receivers"]?["sent"] == 1, "\(lines)")
    }
}
