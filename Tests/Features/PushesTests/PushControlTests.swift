import FoundationEssentials
import HTTPClient
import JSON
import KakaoSandbox
import Postgres
import Runtime
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Pushes
@testable import Server
@testable import Settings

/// Tests of pause, resume, cancel and retry, and of the lists of pushes and batches.
@Suite(.timeLimit(.minutes(5))) struct PushControlTests {
    private static let unknown = "/v1/pushes/01990000-0000-7000-8000-000000000000"

    /// A user whose sends fail temporarily.
    private static let slow: Int64 = 1
    /// Two users. Kakao rejects every message to them.
    private static let refused: Int64 = 2
    private static let alsoRefused: Int64 = 3

    /// Creates a push and waits until it is in a state.
    private static func push(in state: PushState, _ service: TestService) async throws -> String {
        let api = service.api
        let push: String
        switch state {
        case .proposed:
            push = try await api.create(uuids([slow, refused, 999]), gcm(), ["skip_unknown": false])
        case .scheduled:
            push = try await api.create(uuids([slow]), gcm(), ["send_at": "2099-01-01T00:00:00Z"])
        case .preparing, .sending:
            push = try await api.create(uuids([slow]))
        case .done:
            // With a failed batch.
            push = try await api.create(uuids([refused]))
        case .paused, .canceled:
            push = try await api.create(uuids([slow]))
            #expect(try await api.control(push, state == .paused ? "pause" : "cancel") == 200)
        case .expired:
            // On a busy machine, a near expires_at could pass before the request arrives.
            push = try await api.create(uuids([slow]), gcm(), ["expires_at": "2099-01-01T00:00:00Z"])
            try await service.database.pool.write("UPDATE pushes SET expires_at = now() WHERE expires_at > now()")
        case .halted:
            push = try await api.create(uuids([refused, alsoRefused]))
        }
        try await api.waitFor(state.rawValue, push)
        return push
    }

    @Test(
        "A control works in the states that allow it, has no effect in its target state, and is rejected in all others"
    )
    func states() async throws {
        // A server notices a changed expires_at when it renews its lease.
        let adjust = { (settings: inout Settings) in settings.pushes.approvalAboveUsers = 2 }
        try await withService(adjust, intervals: WorkIntervals(lease: .seconds(2))) { service in
            try await service.database.addPhones([Self.slow, Self.refused, Self.alsoRefused])
            service.kakao.fail("send", status: 503, code: -9798) {
                $0.userIDs = [Self.slow]
                $0.retryAfterSeconds = 600
            }
            // Kakao rejects the message for every user.
            service.kakao.fail("send", status: 400, code: -2) { $0.userIDs = [Self.refused, Self.alsoRefused] }
            // The states to which each control leads, by the state before. In other states it is rejected.
            let expected: [(String, [PushState: Set<String>])] = [
                ("pause", [.scheduled: ["paused"], .sending: ["paused"], .paused: ["paused"]]),
                (
                    "resume",
                    [
                        .scheduled: ["scheduled"], .sending: ["sending"], .paused: ["sending", "preparing"],
                        // It is sent again at once, and may have ended before the answer is read.
                        .halted: ["sending", "halted", "done"],
                    ]
                ),
                (
                    "cancel",
                    [
                        .proposed: ["canceled"], .scheduled: ["canceled"], .sending: ["canceled"],
                        .paused: ["canceled"], .halted: ["canceled"],
                        .canceled: ["canceled"],
                    ]
                ),
                ("retry", [.done: ["sending", "done"], .sending: ["sending"]]),
            ]
            for (control, allowed) in expected {
                for state in PushState.allCases where state != .preparing {
                    let push = try await Self.push(in: state, service)
                    let answer = try await service.api.post("\(push)/\(control)")
                    if let states = allowed[state] {
                        #expect(answer.status == 200, "\(control) of \(state)")
                        #expect(states.contains(answer.json?["state"]?.string ?? ""), "\(control) of \(state)")
                        #expect("/v1/pushes/\(answer.json?["id"]?.string ?? "")" == push)
                    } else {
                        #expect(answer.status == 409, "\(control) of \(state)")
                        #expect(answer.json?["type"] == "urn:kakao-push-server:error:wrong-state")
                        let possible = state.actions(awaitsApproval: state == .proposed).map(\.rawValue)
                        let end = possible == ["retry"] ? "What has failed can be retried" : "It has ended."
                        let words = possible.count > 1 ? possible.joined(separator: ", ") : end
                        let detail = answer.json?["detail"]?.string ?? ""
                        #expect(detail.hasPrefix("Cannot \(control) a push in state `\(state.rawValue)`. "))
                        #expect(detail.contains(words) && !detail.contains("concurrent"), "\(detail)")
                        #expect(try await service.api.state(push) == state.rawValue)
                    }
                }
                #expect(try await service.api.control(Self.unknown, control) == 404)
                #expect(try await service.api.control("/v1/pushes/x", control) == 404)
            }
            for path in ["", "/batches", "/events"] {
                #expect(try await service.api.get(Self.unknown + path).status == 404)
            }
        }
    }

    @Test("A scheduled push that is paused and resumed is scheduled again")
    func scheduledAgain() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let push = try await service.api.create(uuids([1]), gcm(), ["send_at": "2099-01-01T00:00:00Z"])
            #expect(try await service.api.control(push, "pause") == 200)
            #expect(try await service.api.control(push, "resume") == 200)
            #expect(try await service.api.state(push) == "scheduled")
            // If its time passes while it is paused, it starts when it is resumed.
            #expect(try await service.api.control(push, "pause") == 200)
            try await service.database.pool.write("UPDATE pushes SET send_at = now()")
            try await service.api.waitUntilDone(service.api.create(uuids([1]), gcm("other")))
            #expect(try await service.api.state(push) == "paused")
            #expect(try await service.api.control(push, "resume") == 200)
            try await service.api.waitUntilDone(push)
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1)
        }
    }

    @Test(
        "After a push is paused or canceled, only its requests in flight complete",
        arguments: ["pause", "cancel"]
    )
    func stopped(control: String) async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = 2 }
        try await withService(adjust) { service in
            try await service.database.addPhones(1...3000)
            // Two batches are answered at once, and the next two stay in flight until the push is stopped.
            let hold = service.kakao.hold("send", of: Set(201...3000))
            let push = try await service.api.create()
            try await eventually("some batches are sent") { service.kakao.sandbox.reached(marker: "m").sends >= 4 }
            #expect(try await service.api.control(push, control) == 200)
            service.kakao.release(hold)
            try await eventually("no batch is in flight") {
                try await service.database.count("\(claimedBatches) WHERE state = 'sending'") == 0
            }
            let sent = service.kakao.sandbox.reached(marker: "m").times
            #expect(sent < 3000)
            try await service.api.waitUntilDone(service.api.create(uuids([1]), gcm("other")))
            #expect(service.kakao.sandbox.reached(marker: "m").times == sent)
            let shown = try await service.api.shown(push)
            #expect(shown["state"] == (control == "pause" ? "paused" : "canceled"))
            #expect(shown["users"]?["sent"] == .integer(sent))
            #expect((shown["finished_at"] == .null) == (control == "pause"))
            // No attempt is counted for released batches.
            #expect(try await service.database.count("\(claimedBatches) WHERE state = 'waiting' AND attempts > 0") == 0)
            guard control == "pause" else { return }
            #expect(try await service.api.control(push, "resume") == 200)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(3000, sent: 3000))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 3000)
        }
    }

    @Test("A push whose last batch completes while it is paused is done once it is resumed")
    func resumedWithoutRest() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let hold = service.kakao.hold("send")
            let push = try await service.api.create(uuids([1]))
            try await eventually("the batch is in flight") { service.kakao.requests("send") == 1 }
            #expect(try await service.api.control(push, "pause") == 200)
            service.kakao.release(hold)
            try await eventually("its result is stored") {
                try await service.api.users(push) == counts(1, sent: 1)
            }
            #expect(try await service.api.state(push) == "paused")
            #expect(try await service.api.control(push, "resume") == 200)
            try await service.api.waitUntilDone(push)
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1)
        }
    }

    @Test("A push that is paused during its preparation is not prepared further until it is resumed")
    func pausedPreparing() async throws {
        try await withService { service in
            try await service.database.addPhones(1...30_000)
            // The first requests, as many as are in flight at a time, outlast the time until the pause.
            let hold = service.kakao.hold("send")
            let push = try await service.api.create()
            #expect(try await service.api.control(push, "pause") == 200)
            service.kakao.release(hold)
            let place = try await service.database.integer("SELECT prepared_up_to FROM pushes")
            try await service.api.waitUntilDone(service.api.create(uuids([1]), gcm("other")))
            #expect(
                try await service.database.integer("SELECT prepared_up_to FROM pushes ORDER BY id LIMIT 1") == place
            )
            #expect(try await service.api.control(push, "resume") == 200)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(30_000, sent: 30_000))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 30_000)
        }
    }

    @Test("An operator's retry sends failed batches again, and the counts are correct each time")
    func retry() async throws {
        try await withService { service in
            try await service.database.addPhones(1...250)
            service.kakao.fail("send", status: 400, code: -8) { $0.userIDs = [150] }
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            let failed = counts(250, sent: 150, failed: 100)
            #expect(try await service.api.users(push) == failed)
            #expect(try await service.api.control(push, "retry") == 200)
            try await eventually("the batch is sent again") { service.kakao.requests("send") == 4 }
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == failed)
            #expect(try await service.api.shown(push)["batches"] == batchCounts(3, sent: 2, failed: 1))
            service.kakao.sandbox.removeFaults()
            #expect(try await service.api.control(push, "retry") == 200)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(250, sent: 250))
            #expect(try await service.api.shown(push)["batches"] == batchCounts(3, sent: 3))
            #expect(service.kakao.requests("send") == 5)
            #expect(service.kakao.sandbox.reached(marker: "m").times == 250)
        }
    }

    @Test("A push without batches to retry is not retried, and does not change")
    func nothingToRetry() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let push = try await service.api.create(uuids([1]))
            try await service.api.waitUntilDone(push)
            let before = try await service.api.shown(push)
            for uncertain in [false, true] {
                let words = uncertain ? "and none is uncertain." : "None of its batches has failed."
                let refused = try await service.api.post("\(push)/retry", json: ["uncertain": .bool(uncertain)])
                #expect(refused.status == 409 && refused.problem == "wrong-state", "\(refused.text)")
                #expect(refused.json?["detail"]?.string?.contains(words) == true, "\(refused.text)")
            }
            #expect(try await service.api.shown(push) == before)
        }
    }

    @Test("A push cannot be retried after its expires_at")
    func retryTooLate() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            service.kakao.fail("send", status: 400, code: -8)
            let push = try await service.api.create(uuids([1]), gcm(), ["expires_at": "2099-01-01T00:00:00Z"])
            try await service.api.waitUntilDone(push)
            try await service.database.pool.write("UPDATE pushes SET expires_at = now()")
            #expect(try await service.api.control(push, "retry") == 409)
            #expect(try await service.api.state(push) == "done")
            #expect(try await service.api.users(push) == counts(1, failed: 1))
        }
    }

    /// Creates a finished push with `count` failed and as many uncertain batches of one user each.
    private static func failed(_ count: Int32, _ service: TestService) async throws -> String {
        try await service.database.addPhones(1...Int64(2 * count))
        let id = UUID.v7()
        try await service.database.pool.write(
            """
            WITH push AS (
                INSERT INTO pushes (
                    id, state, audience, message, message_version, delivery, prepared_at, started_at, finished_at, users, next_number
                )
                VALUES (
                    $1, 'done', '{}', '{"for_gcm":{"custom_field":{"marker":"m"}}}', 'v1', 'at_most_once', now(), now(), now(),
                    2 * $2, 2 * $2 + 1
                )
            ),
            batch AS (
                INSERT INTO push_batches (push_id, number, user_ids, users, state, attempts, finished_at)
                SELECT $1, number, ARRAY[number], 1, CASE number % 2 WHEN 0 THEN 'failed' ELSE 'uncertain' END, 1, now()
                FROM generate_series(1, 2 * $2) AS number
            )
            INSERT INTO push_counts (push_id, slot, state, users, batches)
            VALUES ($1, 0, 'failed', $2, $2), ($1, 0, 'uncertain', $2, $2)
            """,
            [.uuid(id), .int32(count)]
        )
        return "/v1/pushes/\(id.lowercased)"
    }

    @Test("A retry of more batches than a step resets sends each of them once, and leaves the uncertain ones")
    func retryInSteps() async throws {
        try await withService { service in
            let push = try await Self.failed(4100, service)
            #expect(try await service.api.control(push, "retry") == 200)
            try await service.api.waitUntilDone(push, within: .seconds(60))
            #expect(try await service.api.users(push) == counts(8200, sent: 4100, uncertain: 4100))
            #expect(try await service.api.shown(push)["batches"] == batchCounts(8200, sent: 4100, uncertain: 4100))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 4100)
            #expect(service.kakao.reachedOnce(stride(from: Int64(2), through: 8200, by: 2)))
            #expect(try await service.database.count("pushes WHERE retry_position IS NULL AND retry_end IS NULL") == 1)
        }
    }

    @Test("A retry includes uncertain batches if requested, and marks them with may_repeat")
    func retryUncertain() async throws {
        try await withService { service in
            let push = try await Self.failed(10, service)
            for body in [["uncertain": "perhaps"], ["all": true]] as [JSONValue] {
                #expect(try await service.api.post("\(push)/retry", json: body).status == 400)
            }
            #expect(try await service.api.post("\(push)/retry", json: ["uncertain": true]).status == 200)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(20, sent: 20, mayRepeat: 10))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 20)
            #expect(try await service.database.count("push_batches WHERE may_repeat AND number % 2 = 1") == 10)
            #expect(try await service.database.count("push_batches WHERE may_repeat") == 10)
        }
    }

    @Test("Batches that fail again during a retry are not retried by it, even if they are split")
    func retryFailsAgain() async throws {
        try await withService { service in
            try await service.database.addPhones(1...4)
            service.kakao.fail("send", status: 400, code: -8, times: 1)
            let push = try await service.api.create(uuids([1, 2, 3, 4]))
            try await service.api.waitUntilDone(push)
            service.kakao.fail("send", status: 400, code: -2) { $0.userIDs = [4] }
            #expect(try await service.api.control(push, "retry") == 200)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(4, sent: 3, failed: 1))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 3)
        }
    }

    @Test("A push is not ended during a retry, regardless of its counts")
    func notEndedWhileRetried() async throws {
        try await TestDatabase.with { database in
            let id = UUID()
            try await database.pool.write(
                """
                INSERT INTO pushes (id, state, audience, message, message_version, prepared_at, users, retry_position, retry_end)
                VALUES ($1, 'sending', '{}', '{}', 'v1', now(), 0, 0, 1)
                """,
                [.uuid(id)]
            )
            let store = BatchStore(pool: database.pool)
            #expect(try await store.finish([id]).isEmpty)
            #expect(try await PreparationStore(pool: database.pool).retryBatches(of: id))
            #expect(try await store.finish([id]) == [id])
        }
    }

    @Test("A push expires by the database's clock, even if its expires_at is changed there")
    func expiry() async throws {
        try await withService(intervals: WorkIntervals(lease: .seconds(2))) { service in
            try await service.database.addPhones([1])
            service.kakao.fail("send", status: 503, code: -9798) { $0.retryAfterSeconds = 600 }
            let push = try await service.api.create(uuids([1]), gcm(), ["expires_at": "2099-01-01T00:00:00Z"])
            try await eventually("the batch was attempted") { service.kakao.requests("send") == 1 }
            try await service.database.pool.write("UPDATE pushes SET expires_at = now()")
            try await service.api.waitFor("expired", push)
        }
    }

    @Test("A rate-limited push continues after the database's clock is set back")
    func clockSetBack() async throws {
        try await withService { service in
            try await service.database.addPhones(1...30)
            let push = try await service.api.create(
                ["everyone": true],
                gcm(),
                ["users_per_second": 10, "send_at": time(in: 1)]
            )
            // The state that a clock leaves that was an hour ahead.
            try await service.database.pool.write(
                "UPDATE pushes SET rate_at = now() + interval '1 hour', rate_users = 0"
            )
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(30, sent: 30))
        }
    }

    // MARK: Lists

    @Test("Pushes are listed from the latest, page by page and by state")
    func list() async throws {
        try await withService { service in
            var pushes: [String] = []
            for _ in 1...5 {
                pushes.append(
                    try await service.api.create(["everyone": true], gcm(), ["send_at": "2099-01-01T00:00:00Z"])
                )
            }
            #expect(try await service.api.control(pushes[1], "cancel") == 200)
            #expect(try await service.api.control(pushes[3], "cancel") == 200)
            func ids(_ state: String?, limit: Int) async throws -> [String] {
                var ids: [String] = []
                var cursor: String?
                repeat {
                    let query = [state.map { "state=\($0)" }, cursor.map { "cursor=\($0)" }, "limit=\(limit)"]
                    let answer = try await service.api.get(
                        "/v1/pushes?\(query.compactMap { $0 }.joined(separator: "&"))"
                    )
                    #expect(answer.status == 200)
                    let items = answer.json?["items"]?.array ?? []
                    #expect(items.count <= limit)
                    ids += items.map { "/v1/pushes/\($0["id"]?.string ?? "")" }
                    cursor = answer.json?["next"]?.string
                } while cursor != nil
                return ids
            }
            for limit in [1, 2, 5, 1000] {
                #expect(try await ids(nil, limit: limit) == pushes.reversed())
                #expect(try await ids("canceled", limit: limit) == [pushes[3], pushes[1]])
                #expect(try await ids("halted", limit: limit).isEmpty)
            }
            // An item is equal to the push shown alone, but has no message.
            let item = try await service.api.get("/v1/pushes", ["limit": "1"]).json?["items"]?[0]
            #expect(try await service.api.summary(pushes[4]) == item)
            for (query, field) in [
                ("state=finished", "state"), ("limit=0", "limit"), ("limit=1001", "limit"), ("cursor=x", "cursor"),
            ] {
                let answer = try await service.api.get("/v1/pushes?\(query)")
                #expect(answer.status == 400)
                #expect(answer.field == field)
            }
        }
    }

    @Test("The batches of a push are listed in order, page by page and by state")
    func batches() async throws {
        try await withService { service in
            try await service.database.addPhones(1...550)
            service.kakao.fail("send", status: 400, code: -8) { $0.userIDs = [150, 350] }
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            func numbers(_ state: String?, limit: Int) async throws -> [Int64] {
                var numbers: [Int64] = []
                var cursor: String?
                repeat {
                    let query = [state.map { "state=\($0)" }, cursor.map { "cursor=\($0)" }, "limit=\(limit)"]
                    let answer = try await service.api.get(
                        "\(push)/batches?\(query.compactMap { $0 }.joined(separator: "&"))"
                    )
                    #expect(answer.status == 200)
                    numbers += (answer.json?["items"]?.array ?? []).compactMap { $0["number"]?.integer }
                    cursor = answer.json?["next"]?.string
                } while cursor != nil
                return numbers
            }
            for limit in [1, 2, 100] {
                #expect(try await numbers(nil, limit: limit) == [1, 2, 3, 4, 5, 6])
                #expect(try await numbers("failed", limit: limit) == [2, 4])
                #expect(try await numbers("sent", limit: limit) == [1, 3, 5, 6])
                #expect(try await numbers("uncertain", limit: limit).isEmpty)
            }
            let last = try await service.api.get("\(push)/batches", ["cursor": "5"]).json?["items"]?[0]
            #expect(last?["uuids"] == .array((501...550).map { .string(String($0)) }))
            #expect(last?["kakao_status"] == 200)
            for (query, field) in [("state=done", "state"), ("cursor=x", "cursor"), ("cursor=99999999999", "cursor")] {
                #expect(try await service.api.get("\(push)/batches?\(query)").field == field)
            }
        }
    }
}
