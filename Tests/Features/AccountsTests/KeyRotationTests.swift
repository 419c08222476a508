import Crypto
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoSandbox
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Accounts
@testable import Server
@testable import Settings

/// Tests of `push-server accounts rotate-key` as a process, while a server uses the tokens.
@Suite(.timeLimit(.minutes(5))) struct KeyRotationTests {
    /// Kakao's authorization server, whose responses wait until a test releases them.
    private struct Kauth {
        let arrived: AsyncStream<Void>
        private let arrival: AsyncStream<Void>.Continuation
        private let released: AsyncStream<Void>
        private let gate: AsyncStream<Void>.Continuation

        init() {
            (arrived, arrival) = AsyncStream.makeStream()
            (released, gate) = AsyncStream.makeStream()
        }

        func release() { gate.finish() }

        func addRoutes(to router: inout Router) {
            router.on(.post, "/oauth/token") { _ in
                arrival.yield()
                for await _ in released {}
                let body = #"{"token_type":"bearer","access_token":"refreshed","expires_in":21600}"#
                return .json(Array(body.utf8))
            }
        }
    }

    /// Runs `rotate-key` and returns its exit code and its lines.
    private static func rotate(
        _ database: TestDatabase,
        _ kakao: TestKakao,
        to key: String,
        from otherKeys: [String]
    ) async throws -> (ending: RunningProgram.Ending?, lines: [String]) {
        var environment = RunningProgram.environment(database, kakao)
        environment["LOG_LEVEL"] = "warning"
        environment["KAKAO_APP_ID"] = String(TestDatabase.appID)
        environment["ACCOUNTS_ENCRYPTION_KEY"] = key
        environment["ACCOUNTS_DECRYPTION_KEYS"] = otherKeys.joined(separator: ",")
        let process = try await RunningProgram.start(["accounts", "rotate-key"], environment: environment)
        let ending = await process.ended()
        for secret in [key, "access-", "refresh-"] + otherKeys {
            #expect(!process.lines.contains { $0.contains(secret) }, "\(process.lines)")
        }
        return (ending, process.lines)
    }

    @Test("After a rotation the new key decrypts all tokens, also those that were refreshed during the rotation")
    func rotation() async throws {
        let (old, oldText) = try EncryptionKey.random()
        let (new, newText) = try EncryptionKey.random()
        let kauth = Kauth()
        try await withStubServer(kauth.addRoutes) { url in
            try await withDatabaseAndKakao { database, kakao in
                func settings(_ key: EncryptionKey, _ otherKeys: [EncryptionKey]) -> Settings {
                    var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
                    settings.kakao.appID = TestDatabase.appID
                    settings.kakao.restAPIKey = "rest-api-key"
                    settings.kakao.authURL = url
                    settings.accounts.encryptionKey = key
                    settings.accounts.decryptionKeys = otherKeys
                    return settings
                }
                // More accounts than a step reads. The access token of the last one has expired.
                try await database.addAccounts(1...520, old)
                try await database.addAccounts([521], old, accessTokenLifetime: 0)

                try await RunningServer.with(settings(new, [old])) { api in
                    async let refreshed = api.post("/v1/accounts/521/access-token")
                    for await _ in kauth.arrived { break }
                    let (ending, lines) = try await Self.rotate(database, kakao, to: newText, from: [oldText])
                    #expect(ending == .exited(0))
                    // A slow rotation prints its progress before.
                    #expect(lines.last == "Encrypted the tokens of 521 accounts under the current key.")
                    kauth.release()
                    #expect(try await refreshed.json?["access_token"] == "refreshed")
                }

                let tokens = try await database.accountTokens(new)
                #expect(tokens.count == 521)
                for userID in Int64(1)...520 { #expect(tokens[userID]?.accessToken == "access-\(userID)") }
                #expect(tokens[521]?.accessToken == "refreshed")
                #expect(tokens.allSatisfy { $1.refreshToken == "refresh-\($0)" })
                // Without the old key.
                try await RunningServer.with(settings(new, [])) { api in
                    for (userID, token) in [(1, "access-1"), (521, "refreshed")] {
                        let answer = try await api.post("/v1/accounts/\(userID)/access-token")
                        #expect(answer.json?["access_token"]?.string == token, "\(answer.text)")
                    }
                }
            }
        }
    }

    @Test("Tokens that cannot be decrypted are reported with the exit code 1, and are not changed")
    func unreadable() async throws {
        let (old, oldText) = try EncryptionKey.random()
        let (new, newText) = try EncryptionKey.random()
        let (lost, _) = try EncryptionKey.random()
        try await withDatabaseAndKakao { database, kakao in
            try await database.addAccounts([1, 4], old)
            try await database.addAccounts([2], lost)
            try await database.addAccounts([3], new)
            try await database.pool.write("UPDATE accounts SET tokens = tokens || 'altered' WHERE user_id = 4")
            func unreadable() async throws -> String {
                try await database.text(
                    "SELECT string_agg(key_id || tokens::text, ' ' ORDER BY user_id) FROM accounts WHERE user_id IN (2, 4)"
                )
            }
            let before = try await unreadable()

            let (ending, lines) = try await Self.rotate(database, kakao, to: newText, from: [oldText])
            #expect(ending == .exited(1))
            #expect(lines.first == "Encrypted the tokens of 1 account under the current key.")
            let problem = try #require(lines.last)
            #expect(problem.contains("The tokens of 2 accounts cannot be decrypted and were not changed: users 2, 4."))
            #expect(problem.contains("accounts.decryption_keys"))
            #expect(try await unreadable() == before)
            #expect(try await database.count("accounts WHERE key_id = '\(new.id)'") == 2)
        }
    }

    @Test("Without an encryption key, rotate-key names the settings that it needs")
    func withoutKey() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let environment = RunningProgram.environment(database, kakao)
            let process = try await RunningProgram.start(["accounts", "rotate-key"], environment: environment)
            #expect(await process.ended() == .exited(1))
            #expect(process.lines.last?.hasPrefix("push-server: Set accounts.encryption_key") == true)
        }
    }
}

extension TestDatabase {
    /// Returns the tokens of all accounts by their users, decrypted with this key alone.
    fileprivate func accountTokens(_ key: EncryptionKey) async throws -> [Int64: AccountTokens] {
        let vault = TokenVault(appID: Self.appID, key: key, otherKeys: [])
        var tokens: [Int64: AccountTokens] = [:]
        for row in try await pool.read("SELECT user_id, tokens, key_id FROM accounts") {
            let (userID, bytes, keyID) = try row.decode(Int64.self, [UInt8].self, String.self)
            tokens[userID] = try vault.open(TokenVault.Sealed(bytes: bytes, keyID: keyID), of: userID)
        }
        return tokens
    }
}
