import Endpoints
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import ServiceKit
@testable import Settings

/// Registrations and withdrawals that PostgreSQL loses: the rows are as they were before.
@Suite(.timeLimit(.minutes(5))) struct LostDeviceTests {
    private static func lost(_ service: TestService, _ object: String) async throws -> Double? {
        try await service.api.metrics().value("kakao_push_lost_commits_total", ["object": object])
    }

    private static func settled(_ service: TestService) async throws {
        try await eventually("no change is pending") {
            try await service.database.count("devices WHERE kakao_revision < revision") == 0
        }
    }

    /// Saves the devices as they are now.
    private static func save(_ database: TestDatabase) async throws {
        try await database.pool.write("CREATE TABLE saved AS SELECT * FROM devices")
    }

    /// Loses whatever happened to devices since they were saved.
    private static func restore(_ database: TestDatabase) async throws {
        try await database.withoutDeviceLimit {
            try await database.pool.write("DELETE FROM devices")
            try await database.pool.write("INSERT INTO devices SELECT * FROM saved")
            try await database.pool.write("DELETE FROM former_devices")
            try await database.pool.write("DELETE FROM erased_users")
        }
    }

    @Test("Lost registrations are stored again, reach Kakao, and stop the sender; what is stored is no loss")
    func registrations() async throws {
        try await withService { service in
            let database = service.database
            _ = try await service.api.register(1, "token-kept")
            _ = try await service.api.register(3, "token-before")
            try await Self.save(database)
            _ = try await service.api.register(2, "token-lost")
            _ = try await service.api.register(3, "token-changed")
            try await Self.restore(database)
            try await database.beginNewRun()
            #expect(try await Self.lost(service, "registrations") == 2)
            #expect(try await Self.lost(service, "withdrawals") == 0)
            try await Self.settled(service)
            let tokens = try await database.text(
                "SELECT string_agg(push_token, ' ' ORDER BY user_id) FROM devices WHERE NOT withdrawn"
            )
            #expect(tokens == "token-kept token-lost token-changed")
            #expect(try await service.kakao.tokens(of: 2) == ["phone gcm token-lost"])
            #expect(
                try await database.count("sender WHERE commits_lost_at IS NOT NULL AND stopped_at IS NOT NULL") == 1
            )
            // Once it is stored again, the next run finds nothing.
            try await database.beginNewRun()
            #expect(try await Self.lost(service, "registrations") == 2)
        }
    }

    @Test("A lost withdrawal is repeated, and a registration before it is not")
    func withdrawals() async throws {
        try await withService { service in
            let database = service.database
            _ = try await service.api.register(1, "token")
            try await Self.save(database)
            #expect(try await service.api.deregister(1).status == 200)
            try await Self.restore(database)
            try await database.beginNewRun()
            #expect(try await Self.lost(service, "withdrawals") == 1)
            #expect(try await Self.lost(service, "registrations") == 0)
            try await eventually("the device is withdrawn") { try await database.count("devices") == 0 }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
        }
    }

    @Test("A token that has moved to another user ends with that user only, here and at Kakao")
    func movedToken() async throws {
        try await withService { service in
            let database = service.database
            _ = try await service.api.register(1, "token")
            try await Self.save(database)
            _ = try await service.api.register(2, "token")
            try await Self.restore(database)
            try await database.beginNewRun()
            #expect(try await Self.lost(service, "registrations") == 1)
            try await Self.settled(service)
            try await eventually("the former owner has lost it") {
                try await database.count("devices") == 1
            }
            #expect(try await database.integer("SELECT user_id FROM devices") == 2)
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
            #expect(try await service.kakao.tokens(of: 2) == ["phone gcm token"])
        }
    }

    @Test("A new run without a loss changes nothing, whatever happened before it, also on another server")
    func nothingLost() async throws {
        func adjust(_ settings: inout Settings) { settings.kakao.appID = 123_456 }
        try await withService(adjust) { service in
            let database = service.database
            for user in Int64(1)...6 { _ = try await service.api.register(user, "token-\(user)") }
            _ = try await service.api.register(1, "token-new")
            #expect(try await service.api.deregister(2).status == 200)
            _ = try await service.api.register(2, "token-again")
            #expect(try await service.api.deregister(3).status == 200)
            _ = try await service.api.register(5, "token-4")
            #expect(try await service.api.delete("/v1/users/5").status == 204)
            let kakao = service.api.with("KakaoAK \(Keys.admin)")
            _ = try await kakao.get("/kakao/unlink", ["app_id": "123456", "user_id": "6"])
            _ = try await service.api.register(7, "token-7")
            // Another server withdraws it, and Kakao confirms.
            try await database.pool.write("UPDATE devices SET withdrawn = true, updated_at = now() WHERE user_id = 7")
            try await database.pool.write("DELETE FROM devices WHERE user_id = 7")
            try await Self.settled(service)
            let devices =
                "SELECT string_agg(user_id || ' ' || push_token || ' ' || revision, ',' ORDER BY user_id) FROM devices"
            let before = try await database.text(devices)
            try await database.beginNewRun()
            for object in ["registrations", "withdrawals", "erasures"] {
                #expect(try await Self.lost(service, object) == 0, "\(object)")
            }
            #expect(try await database.text(devices) == before)
            #expect(try await database.count("sender WHERE commits_lost_at IS NULL AND stopped_at IS NULL") == 1)
            #expect(service.log.messages.contains("PostgreSQL was restarted or replaced: nothing is lost"))
        }
    }

    @Test("A lost erasure is carried out again, and a lost registration of the erased user is not")
    func erasure() async throws {
        try await withService { service in
            let database = service.database
            _ = try await service.api.register(1, "token-1")
            try await Self.save(database)
            _ = try await service.api.register(1, "token-2", device: "second")
            #expect(try await service.api.delete("/v1/users/1").status == 204)
            try await Self.restore(database)
            try await database.beginNewRun()
            #expect(try await Self.lost(service, "erasures") == 1)
            #expect(try await Self.lost(service, "registrations") == 0)
            try await eventually("no device is left") { try await database.count("devices") == 0 }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
            #expect(try await database.count("erased_users") == 1)
        }
    }

    @Test("A lost unlink is carried out again, and a lost registration before it is not")
    func unlink() async throws {
        func adjust(_ settings: inout Settings) { settings.kakao.appID = 123_456 }
        try await withService(adjust) { service in
            let database = service.database
            _ = try await service.api.register(1, "token-1")
            try await Self.save(database)
            _ = try await service.api.register(1, "token-2", device: "second")
            let kakao = service.api.with("KakaoAK \(Keys.admin)")
            _ = try await kakao.get("/kakao/unlink", ["app_id": "123456", "user_id": "1"])
            try await Self.settled(service)
            try await Self.restore(database)
            try await database.pool.write("DELETE FROM events")
            try await database.beginNewRun()
            #expect(try await Self.lost(service, "withdrawals") == 1)
            #expect(try await Self.lost(service, "registrations") == 0)
            try await eventually("no device is left") { try await database.count("devices") == 0 }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
        }
    }

    @Test("A registration that followed an unlink survives when both are lost")
    func registrationAfterUnlink() async throws {
        func adjust(_ settings: inout Settings) { settings.kakao.appID = 123_456 }
        try await withService(adjust) { service in
            let database = service.database
            _ = try await service.api.register(1, "token-1")
            try await Self.save(database)
            let kakao = service.api.with("KakaoAK \(Keys.admin)")
            _ = try await kakao.get("/kakao/unlink", ["app_id": "123456", "user_id": "1"])
            try await Self.settled(service)
            _ = try await service.api.register(1, "token-2")
            try await Self.restore(database)
            try await database.pool.write("DELETE FROM events")
            try await database.beginNewRun()
            #expect(try await Self.lost(service, "withdrawals") == 1)
            #expect(try await Self.lost(service, "registrations") == 1)
            try await Self.settled(service)
            #expect(try await database.text("SELECT push_token FROM devices WHERE NOT withdrawn") == "token-2")
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm token-2"])
        }
    }

    @Test("A registration that followed an erasure survives when both are lost", arguments: [false, true])
    func registrationAfterErasure(isKakaoDown: Bool) async throws {
        try await withService { service in
            let database = service.database
            _ = try await service.api.register(1, "token-1")
            try await Self.save(database)
            #expect(try await service.api.delete("/v1/users/1").status == 204)
            _ = try await service.api.register(1, "token-2")
            try await Self.restore(database)
            if isKakaoDown { service.kakao.fail("*", .down) }
            try await database.beginNewRun()
            #expect(try await Self.lost(service, "erasures") == 1)
            #expect(try await Self.lost(service, "registrations") == 1)
            service.kakao.endFaults()
            try await database.pool.write("UPDATE devices SET next_attempt_at = now()")
            try await Self.settled(service)
            #expect(try await database.text("SELECT push_token FROM devices WHERE NOT withdrawn") == "token-2")
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm token-2"])
        }
    }

    @Test(
        "A loss stops the sender although the registrations that are missing are stored again one after another, and one fails at first"
    )
    func halfway() async throws {
        try await withService { service in
            let database = service.database
            _ = try await service.api.register(2, "token-2")
            try await Self.save(database)
            _ = try await service.api.register(1, "token-1")
            _ = try await service.api.register(2, "token-changed")
            try await Self.restore(database)
            // The second one waits for the row, and then fails.
            try await database.pool.withTransaction { transaction in
                try await transaction.query("UPDATE devices SET updated_at = updated_at WHERE user_id = 2")
                try await database.pool.write(
                    "CREATE OR REPLACE FUNCTION database_run() RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'halfway' $$"
                )
                try await eventually("the first one is stored again") {
                    try await database.count("devices WHERE user_id = 1") == 1
                }
                try await eventually("the second one waits") {
                    try await database.pool.write(
                        """
                        SELECT pg_terminate_backend(pid)
                        FROM pg_stat_activity
                        WHERE datname = current_database()
                            AND wait_event_type = 'Lock'
                            AND query LIKE '%RestoreRegistration%'
                        """
                    ).affectedRows > 0
                }
            }
            try await eventually("the run is compared") {
                try await database.count("work_leases WHERE checked_run IS DISTINCT FROM database_run()") == 0
            }
            #expect(try await Self.lost(service, "registrations") == 2)
            #expect(try await database.text("SELECT reason FROM sender").contains("(2 registrations)"))
            try await Self.settled(service)
            #expect(try await service.kakao.tokens(of: 2) == ["phone gcm token-changed"])
        }
    }

    @Test("For 30 days after a loss, reconciliation leaves tokens alone that only Kakao knows; an erasure removes them")
    func reconciliation() async throws {
        try await withService { service in
            let atKakao = TestClient(url: service.kakao.sandbox.url, authorization: "KakaoAK \(Keys.admin)")
            #expect(try await atKakao.register(1, "token", device: "unknown").status == 200)
            try await service.database.pool.write("UPDATE sender SET commits_lost_at = now() - interval '29 days'")
            var answer = try await service.api.post("/v1/users/1/sync")
            #expect(answer.json?["differences"]?.array?.map { $0["difference"] } == ["unknown_here"])
            #expect(try await service.database.count("devices") == 0)
            #expect(try await service.kakao.tokens(of: 1) == ["unknown gcm token"])

            #expect(try await service.api.delete("/v1/users/1").status == 204)
            #expect(try await service.kakao.tokens(of: 1).isEmpty)

            #expect(try await atKakao.register(1, "token", device: "unknown").status == 200)
            try await service.database.pool.write("UPDATE sender SET commits_lost_at = now() - interval '31 days'")
            answer = try await service.api.post("/v1/users/1/sync")
            #expect(answer.json?["differences"]?.array?.map { $0["difference"] } == ["unknown_here"])
            try await eventually("the token is deregistered") {
                try await service.kakao.tokens(of: 1).isEmpty
            }
        }
    }
}
