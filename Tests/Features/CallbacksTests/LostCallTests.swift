import Callbacks
import HTTPClient
import HTTPTypes
import KakaoSandbox
import Postgres
import Server
import ServiceTesting
import Settings
import TestSupport
import Testing

/// Calls from Kakao that PostgreSQL loses.
@Suite(.timeLimit(.minutes(5))) struct LostCallTests {
    @Test("Lost calls are stored again, those that are stored have no effect, and erased users stay erased")
    func restored() async throws {
        let journal = "\(try TemporaryFolder.make())/journal"
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = 123_456
            settings.journal.directory = journal
            settings.callbacks.userIDArgument = "member"
        }
        try await withService(adjust) { service in
            let database = service.database
            let kakao = service.api.with("KakaoAK \(Keys.admin)")
            for user in ["1", "2", "3"] {
                _ = try await kakao.get("/kakao/unlink", ["app_id": "123456", "user_id": user])
                _ = try await kakao.get(
                    "/kakao/link/callback",
                    ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "hash", "member": user]
                )
            }
            _ = try await service.api.register(4, "token")
            let report = "userId=4&pushToken=token"
            #expect(
                try await service.api.with(nil).post(
                    "/kakao/push/feedback/\(Keys.feedback)",
                    Array(report.utf8),
                    type: "application/x-www-form-urlencoded"
                ).status == 200
            )
            func lost() async throws -> Double? {
                try await service.api.metrics().value("kakao_push_lost_commits_total", ["object": "callbacks"])
            }
            try await database.beginNewRun()
            #expect(try await lost() == 0)
            #expect(try await database.integer("SELECT failures::bigint FROM devices WHERE user_id = 4") == 1)

            try await database.pool.write("DELETE FROM link_callbacks WHERE args ->> 'member' <> '1'")
            try await database.pool.write("DELETE FROM events WHERE user_id <> 1")
            #expect(try await service.api.delete("/v1/users/3").status == 204)
            try await database.beginNewRun()
            #expect(try await lost() == 3)
            let users = "SELECT string_agg(user_id::text, ' ' ORDER BY user_id) FROM events"
            #expect(try await database.text(users) == "1 2")
            let members = "SELECT string_agg(COALESCE(args ->> 'member', '-'), ' ' ORDER BY id) FROM link_callbacks"
            #expect(try await database.text(members) == "1 2 -")
        }
    }
}
