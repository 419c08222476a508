import Accounts
import Crypto
import JSON
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Settings

/// Tests of `push-server accounts list` and `show` as a process, against a server over a real socket.
@Suite(.timeLimit(.minutes(5))) struct AccountsCommandTests {
    /// Runs `body` with a server that keeps the tokens of users 1 to 3, of whom user 3 must log in again.
    private static func with(_ body: (TestService, OperatorCommand) async throws -> Void) async throws {
        let (key, _) = try EncryptionKey.random()
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = TestDatabase.appID
            settings.accounts.encryptionKey = key
        }
        try await withService(adjust) { service in
            try await service.database.addAccounts(1...3, key)
            try await service.database.pool.write(
                """
                UPDATE accounts
                SET state = 'login_required', reason = 'refresh_token_rejected', refresh_token_ends_at = '2026-01-31T09:00:00Z'
                WHERE user_id = 3
                """
            )
            try await body(service, OperatorCommand("accounts", service.api.url))
        }
    }

    /// Runs a command, and records an issue if its output contains a token.
    private static func run(_ accounts: OperatorCommand, _ arguments: [String]) async throws -> OperatorCommand.Result {
        let result = try await accounts.run(arguments)
        for secret in ["access-", "refresh-", Keys.operator] { #expect(!result.output.contains(secret)) }
        return result
    }

    @Test("Accounts are listed as a table or as JSON, by state and by the end of the refresh token")
    func list() async throws {
        try await Self.with { _, accounts in
            let all = try await Self.run(accounts, ["list"])
            #expect(all.code == 0, "\(all)")
            #expect(all.lines.count == 4)
            #expect(
                all.lines[0].hasPrefix("user  state           reason                  refreshed by  refresh token ends")
            )
            #expect(all.lines[1].hasPrefix("1     linked                                  server        "))
            let row = "3     login_required  refresh_token_rejected  server        2026-01-31T09:00:00"
            #expect(all.lines[3].hasPrefix(row), "\(all.output)")

            for arguments in [["--state", "login_required"], ["--ends-before", "2026-01-31T18:00:01+09:00"]] {
                let some = try await Self.run(accounts, ["list", "--json"] + arguments)
                #expect(some.lines.count == 1, "\(some)")
                #expect(try JSONValue(parsing: some.output)["user_id"] == "3")
            }
            #expect(try await Self.run(accounts, ["list", "--json", "--limit", "2"]).lines.count == 2)
            let invalid = try await Self.run(accounts, ["list", "--state", "lost"])
            #expect(invalid.code == 64)
            #expect(invalid.errors.contains("linked, login_required"), "\(invalid.errors)")
        }
    }

    @Test("An account is shown as a table or as JSON; an unknown user is an error")
    func show() async throws {
        try await Self.with { _, accounts in
            let shown = try await Self.run(accounts, ["show", "3"])
            #expect(shown.code == 0, "\(shown)")
            #expect(
                shown.lines.prefix(6) == [
                    "user_id                3", "state                  login_required",
                    "reason                 refresh_token_rejected", "scopes                 profile_nickname friends",
                    "app_key                rest", "refreshed_by           server",
                ]
            )
            let json = try await Self.run(accounts, ["show", "1", "--json"])
            #expect(try JSONValue(parsing: json.output)["state"] == "linked")

            let unknown = try await Self.run(accounts, ["show", "4"])
            #expect(unknown.code == 1)
            #expect(unknown.errors.hasPrefix("push-server: There is no account of this user. (request "))
            #expect(try await Self.run(accounts, ["show", "-"]).errors.contains("an integer from 1"))
        }
    }
}
