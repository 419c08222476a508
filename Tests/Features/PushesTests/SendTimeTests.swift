import FoundationEssentials
import HTTPClient
import HTTPServer
import JSON
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Pushes
@testable import Runtime

/// Tests of the times of a push that are past, and of the time zone of the operators.
@Suite(.timeLimit(.minutes(5))) struct SendTimeTests {
    @Test(
        "A send_at of more than ten minutes ago is refused with both times, in a dry run too, and a later one is sent at once"
    )
    func past() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let given = time(in: -660)
            for dryRun in [false, true] {
                let body = pushBody(uuids([1]), gcm(), ["send_at": given, "dry_run": .bool(dryRun)])
                let answer = try await service.api.post("/v1/pushes", json: body)
                #expect(answer.status == 400 && answer.field == "send_at", "\(answer.text)")
                let (sendAt, now) = (given.string ?? "?", answer.json?["now"]?.string ?? "?")
                let detail = answer.json?["detail"]?.string ?? ""
                #expect(detail.contains(sendAt) && detail.contains(now), "\(detail)")
                #expect(Date(rfc3339: now).map { abs($0.timeIntervalSinceNow) < 600 } == true)
            }
            let expired = try await service.api.post(
                "/v1/pushes",
                json: pushBody(uuids([1]), gcm(), ["send_at": time(in: -60), "expires_at": time(in: -30)])
            )
            #expect(expired.status == 400 && expired.field == "expires_at", "\(expired.text)")
            #expect(try await service.database.count("pushes") == 0)
            let late = try await service.api.create(uuids([1]), gcm(), ["send_at": time(in: -120)])
            try await service.api.waitUntilDone(late)
        }
    }

    @Test("A repeated request gets its first response when its times are past, but another one with the key does not")
    func repetition() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let caller = service.api.with(idempotencyKey: "key")
            let first = try await caller.post(
                "/v1/pushes",
                json: pushBody(uuids([1]), gcm(), ["send_at": "2099-01-01T00:00:00Z"])
            )
            #expect(first.status == 202)
            let past = pushBody(
                uuids([1]),
                gcm(),
                ["send_at": "2001-01-01T00:00:00Z", "expires_at": "2001-01-02T00:00:00Z"]
            )
            let before = try await caller.post("/v1/pushes", Array(past.description.utf8), type: "application/json")
            #expect(before.status == 422)
            // As if the push had been requested with these times before they were past.
            try await service.database.pool.write(
                """
                UPDATE idempotency_keys
                SET sha256 = sha256(convert_to('/v1/pushes' || chr(10) || '\(past.description)', 'UTF8'))
                """
            )
            let again = try await caller.post("/v1/pushes", Array(past.description.utf8), type: "application/json")
            #expect(again.status == 202 && again.text == first.text, "\(again.text)")
            let other = try await service.api.with(idempotencyKey: "other")
                .post("/v1/pushes", Array(past.description.utf8), type: "application/json")
            #expect(other.status == 400 && other.field == "send_at", "\(other.text)")
            #expect(try await service.database.count("pushes") == 1)
        }
    }

    @Test("A time that is not past has no problem: ten minutes ago, but not a moment more")
    func boundary() throws {
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        var times = SendingTimes()
        #expect(times.problem(at: now) == nil)
        times.sendAt = now - 600
        #expect(times.problem(at: now) == nil)
        times.sendAt = now - 600.001
        #expect(times.problem(at: now)?.members["field"] == "send_at")
        times.sendAt = nil
        times.expiresAt = now + 0.001
        #expect(times.problem(at: now) == nil)
        times.expiresAt = now
        #expect(times.problem(at: now)?.members["field"] == "expires_at")
    }

    @Test("The time zone has its changes to the minute, as PostgreSQL knows them")
    func zone() async throws {
        try await withService {
            $0.pushes.timeZone = "Europe/Berlin"
        } _: { service in
            let answer = try await service.api.get("/v1/time-zone")
            #expect(answer.status == 200 && answer.json?["name"] == "Europe/Berlin", "\(answer.text)")
            let offsets = answer.json?["offsets"]?.array ?? []
            #expect(offsets.contains(["since": "2025-03-30T01:00:00.000Z", "seconds": 7200]), "\(answer.text)")
            #expect(offsets.contains(["since": "2025-10-26T01:00:00.000Z", "seconds": 3600]))
            let sinces = offsets.compactMap { $0["since"]?.string }
            #expect(sinces == sinces.sorted() && sinces.count == offsets.count && sinces.count > 20)
        }
        try await withSharedService { service in
            let offsets = try await service.api.get("/v1/time-zone").json?["offsets"]?.array
            #expect(offsets?.count == 1 && offsets?.first?["seconds"] == 32_400)
            #expect(try await service.api.with(nil).get("/v1/time-zone").status == 401)
        }
    }
}
