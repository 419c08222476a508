import JSON
import ServiceTesting
import TestSupport
import Testing

/// Tests that run the commands and the backend of `docs/accounts.md` unchanged, with `push-server dev`.
@Suite(.timeLimit(.minutes(5))) struct AccountsPageTests {
    @Test("The commands for a web service lead a browser to Kakao and back, and redeem the ticket")
    func commands() async throws {
        let browser = try TestFiles.code(in: "docs/accounts.md", after: "```sh\n# A browser")
        let backend = try TestFiles.code(in: "docs/accounts.md", after: "```sh\n# 4. Your service")
        let lines = try await DevServer.run("#\(browser)\n#\(backend)")
        #expect(lines.count == 2)
        let address = try #require(lines.first)
        #expect(address.hasPrefix("http://localhost:3000/login/done?ticket="), "\(address)")
        #expect(address.hasSuffix("&state=4f1c0b"), "\(address)")
        let result = try JSONValue(parsing: lines.last ?? "")
        #expect(result["user_id"] == "1234")
        #expect(result["is_new"] == true)
        #expect(result["scopes"]?.array?.contains("profile_nickname") == true)
    }

    @Test("The backend in Python logs a browser in, and refuses a ticket of another browser")
    func backend() async throws {
        let program = try TestFiles.code(in: "docs/accounts.md", after: "```python\n")
        // curl is the browser. It finds the port of the backend at that of the page.
        let script = """
            PORT=0 python3 backend.py >address 2>requests & service=$!
            trap 'kill $service' EXIT
            for attempt in {1..600}; do
                grep -qs login address && break
                sleep 0.1
            done
            port=$(sed 's/.*:\\([0-9]*\\).*/\\1/' address)
            visit() { curl -sS --connect-to "localhost:3000:127.0.0.1:$port" --cacert "$SANDBOX_CERTIFICATE" "$@"; }
            visit http://localhost:3000/
            visit --location --cookie first --cookie-jar first http://localhost:3000/login
            visit --cookie first --cookie-jar first http://localhost:3000/
            visit 'http://localhost:3000/login/done?ticket=stolen&state=guessed'
            visit 'http://localhost:3000/login/done?error=access_denied'
            """
        let lines = try await DevServer.run(script, files: ["backend.py": program])
        #expect(
            lines == [
                "Begin at /login", "Hello, user 1001", "Hello, user 1001", "Not logged in: begin at /login",
                "Not logged in: access_denied",
            ]
        )
    }
}
