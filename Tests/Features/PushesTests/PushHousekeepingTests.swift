import HTTPClient
import JSON
import KakaoSandbox
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Pushes

/// Tests of the removal of pushes after their retention time.
@Suite(.timeLimit(.minutes(5))) struct PushHousekeepingTests {
    @Test("A push is removed with all its rows after its retention time, and its idempotency key is free again")
    func removed() async throws {
        try await withService { service in
            try await service.database.addPhones(1...250)
            try await service.database.addPhones([251], type: "apns")
            let old = try await service.api.with(idempotencyKey: "old").create(["everyone": true])
            let young = try await service.api.with(idempotencyKey: "young").create(["everyone": true])
            let scheduled = try await service.api.create(uuids([1]), gcm(), ["send_at": "2099-01-01T00:00:00Z"])
            for push in [old, young] { try await service.api.waitUntilDone(push) }
            func age(_ push: String, days: Int) async throws {
                try await service.database.pool.write(
                    """
                    UPDATE pushes SET finished_at = now() - interval '\(days) days', created_at = now() - interval '90 days'
                    WHERE id = '\(push.split(separator: "/").last ?? "")'
                    """
                )
            }
            try await age(old, days: 31)
            try await age(young, days: 29)
            try await service.database.pool.write(
                "UPDATE pushes SET created_at = now() - interval '90 days' WHERE state = 'scheduled'"
            )

            // Adds the rows that failed attempts would leave.
            try await service.database.pool.write(
                """
                INSERT INTO push_batches (push_id, number, users, state, attempts)
                SELECT push_id, batch, 100, 'sent', 2
                FROM push_parts
                CROSS JOIN generate_series(1, 3) AS batch
                WHERE push_id = '\(old.split(separator: "/").last ?? "")'
                """
            )
            let pool = service.database.pool
            let store = HousekeepingStore(pool: pool)
            let push = try #require(try await store.expiredPush(retentionDays: 30))
            #expect("/v1/pushes/\(push.lowercased)" == old)
            // Rows are removed in small steps, and the push is kept while rows are left.
            for count in [2, 1, 0] {
                #expect(try await pool.write(DeletePushBatches(pushID: push, limit: 2)) == count)
            }
            try await pool.write(DeletePush(id: push))
            #expect(try await service.api.get(old).status == 200, "before claims are removed")
            for count in [1, 0] { #expect(try await pool.write(DeletePushClaims(pushID: push, limit: 2)) == count) }
            try await pool.write(DeletePush(id: push))
            #expect(try await service.api.get(old).status == 200, "before parts are removed")
            for count in [1, 0] { #expect(try await pool.write(DeletePushParts(pushID: push, limit: 2)) == count) }
            try await pool.write(DeletePush(id: push))
            #expect(try await service.api.get(old).status == 200, "before skipped users are removed")
            for count in [1, 0] { #expect(try await pool.write(DeleteSkippedUsers(pushID: push, limit: 2)) == count) }
            try await pool.write(DeletePush(id: push))
            #expect(try await store.expiredPush(retentionDays: 30) == nil)

            #expect(try await service.api.get(old).status == 404)
            #expect(try await service.api.get("\(old)/batches").status == 404)
            let id = old.split(separator: "/").last ?? ""
            for table in [
                "push_batches", "push_claims", "push_parts", "push_skipped", "push_counts", "idempotency_keys",
            ] {
                #expect(try await service.database.count("\(table) WHERE push_id = '\(id)'") == 0, "\(table)")
            }
            #expect(try await service.api.users(young) == counts(251, sent: 250, skipped: 1))
            #expect(try await service.api.state(scheduled) == "scheduled")
            let again = try await service.api.with(idempotencyKey: "old").create(["everyone": true])
            #expect(again != old)
            #expect(try await service.api.with(idempotencyKey: "young").create(["everyone": true]) == young)
        }
    }

    @Test("A push whose removal has begun cannot be retried, and a push that is being retried is not removed")
    func retried() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            service.kakao.fail("send", status: 400, code: -8)
            let push = try await service.api.create(uuids([1]))
            try await service.api.waitUntilDone(push)
            let store = HousekeepingStore(pool: service.database.pool)
            try await service.database.pool.write("UPDATE pushes SET finished_at = now() - interval '31 days'")
            #expect(try await store.expiredPush(retentionDays: 30) != nil)
            #expect(try await service.api.control(push, "retry") == 409)

            service.kakao.sandbox.removeFaults()
            try await service.database.pool.write("UPDATE pushes SET removed_at = NULL")
            #expect(try await service.api.control(push, "retry") == 200)
            #expect(try await store.expiredPush(retentionDays: 30) == nil)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(1, sent: 1))
        }
    }

    @Test("A push with remaining batches is not removed, and nothing that belongs to it is")
    func whole() async throws {
        try await withService { service in
            try await service.database.addPhones(1...250)
            let push = try await service.api.with(idempotencyKey: "key").create()
            try await service.api.waitUntilDone(push)
            let store = HousekeepingStore(pool: service.database.pool)
            try await service.database.pool.write("UPDATE pushes SET finished_at = now() - interval '31 days'")
            let id = try #require(try await store.expiredPush(retentionDays: 30))
            // Another server is still removing its batches.
            try await service.database.pool.write(DeletePush(id: id))
            #expect(try await service.api.users(push) == counts(250, sent: 250))
            #expect(try await service.database.count("idempotency_keys") == 1)
        }
    }
}
