import Endpoints
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPTypes
import Identity
import JSON
import KakaoSandbox
import Logging
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Pushes

/// Tests of pushes that another operator has to approve.
@Suite(.timeLimit(.minutes(5))) struct ApprovalTests {
    private static let everyone: JSONValue = ["everyone": true]

    /// A service with a limit of five users, and the callers of two operators.
    private struct Office: Sendable {
        let service: TestService
        /// A caller with the scopes `send`, `read` and `approve`.
        let creator: TestClient
        /// A caller with the scopes `approve` and `read`, and the creator's name.
        let approver: TestClient
        let approverKey: String

        var database: TestDatabase { service.database }
        var kakao: TestKakao { service.kakao }

        init(_ service: TestService) async throws {
            self.service = service
            approverKey = try await Self.makeKey("shop", [.approve, .read], service.database)
            creator = service.api.with(
                "Bearer \(try await Self.makeKey("shop", [.send, .approve, .read], service.database))"
            )
            approver = service.api.with("Bearer \(approverKey)")
        }

        static func makeKey(_ name: String, _ scopes: Set<Scope>, _ database: TestDatabase) async throws -> String {
            try await OperatorKeyStore(pool: database.pool).create(name: name, scopes: scopes, expiresAt: nil)
        }

        /// Creates a push to everyone that waits for its approval.
        func propose(_ more: JSONObject = [:]) async throws -> String {
            let push = try await creator.create(ApprovalTests.everyone, gcm(), more)
            #expect(try await creator.state(push) == "proposed")
            return push
        }

        func set(_ assignments: String, _ push: String) async throws {
            try await database.pool.write(
                "UPDATE pushes SET \(assignments) WHERE id = '\(push.split(separator: "/").last ?? "")'"
            )
        }

        /// Sends a push to one user that needs no approval, so that the servers have looked for work since.
        func sendAnother(_ marker: String = "other") async throws {
            try await creator.waitUntilDone(try await creator.create(uuids([1]), gcm(marker)))
        }
    }

    /// Runs `body` with an office, and phones of these users.
    private static func withOffice(
        _ users: ClosedRange<Int64> = 1...10,
        above limit: Int = 5,
        _ body: (Office) async throws -> Void
    ) async throws {
        try await withService {
            $0.pushes.approvalAboveUsers = limit
        } _: { service in
            try await service.database.addPhones(users)
            try await body(Office(service))
        }
    }

    // MARK: Approval and rejection

    @Test("A push above the limit is neither prepared nor sent before another key approves it")
    func approved() async throws {
        try await Self.withOffice { office in
            let body = pushBody(Self.everyone)
            let answer = try await office.creator.post("/v1/pushes", json: body)
            #expect(answer.status == 202)
            let push = try #require(answer.headerFields[.location])
            let proposed = try #require(answer.json)
            #expect(proposed["state"] == "proposed")
            #expect(proposed["awaits_approval"] == true)
            #expect(proposed["approve_before"]?.string?.hasSuffix("Z") == true)
            #expect(proposed["counted_users"] == 10)
            #expect(try await office.creator.summary(push) == proposed)
            try await office.sendAnother()
            #expect(try await office.creator.summary(push) == proposed)
            #expect(try await office.database.count("push_parts") == 0)
            #expect(office.kakao.sandbox.reached(marker: "m").times == 0)
            for filter in [["state": "proposed"], ["unfinished": "true"]] as [KeyValuePairs<String, String>] {
                let listed = try await office.creator.get("/v1/pushes", filter).json?["items"]?.array
                #expect(listed?.map { $0["id"] } == [proposed["id"]])
            }
            try await eventually("the metrics count it") {
                try await office.creator.metrics().value("kakao_push_pushes", ["state": "proposed"]) == 1
            }

            let approval = try await office.approver.post("\(push)/approve")
            #expect(approval.status == 200)
            #expect(approval.json?["approved_by"] == "shop")
            #expect(approval.json?["approved_at"]?.string != nil)
            #expect(approval.json?["awaits_approval"] == false)
            #expect(approval.json?["approve_before"] == .null)
            try await office.creator.waitUntilDone(push)
            #expect(office.kakao.reachedOnce(1...10))
            #expect(office.kakao.sandbox.reached(marker: "m").times == 10)
        }
    }

    @Test("Only users to send to count, and a push below the limit needs no approval, nor does a list of few users")
    func limit() async throws {
        try await Self.withOffice(1...5) { office in
            try await office.database.pool.write(
                """
                INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision, tags)
                SELECT id, 'phone', 'apns', 'token-' || id, 1, '{iphone}'
                FROM generate_series(6, 20) AS id
                """
            )
            // 15 users are skipped.
            let push = try await office.creator.create()
            #expect(try await office.creator.shown(push)["counted_users"] == 5)
            try await office.creator.waitUntilDone(push)
            let apns: JSONValue = ["for_apns": ["message": "m"]]
            let proposed = try await office.creator.create(["tags_any": ["iphone"]], apns)
            #expect(try await office.creator.state(proposed) == "proposed")
            let few = try await office.creator.create(
                ["tags_any": ["iphone"]],
                apns,
                ["except": ["tags_any": ["iphone"]]]
            )
            #expect(try await office.creator.shown(few)["counted_users"] == 0)
            let listed = try await office.creator.create(uuids([1, 2, 3, 4, 5, 5]))
            #expect(try await office.creator.shown(listed)["counted_users"] == .null)
            let many = try await office.creator.create(uuids(1...6), gcm(), ["skip_unknown": false])
            #expect(try await office.creator.shown(many)["counted_users"] == 6)
            #expect(try await office.creator.state(many) == "proposed")
            for (audience, needsApproval) in [(Self.everyone, false), (["tags_all": ["iphone"]], true)] {
                let dry = pushBody(audience, needsApproval ? apns : gcm(), ["dry_run": true])
                #expect(
                    try await office.creator.post("/v1/pushes", json: dry).json?["needs_approval"]
                        == .bool(needsApproval)
                )
            }
        }
    }

    @Test("A limit of 0 makes every push wait, and without a limit none does")
    func extremes() async throws {
        try await Self.withOffice(1...10, above: 0) { office in
            let push = try await office.creator.create(uuids([1]))
            #expect(try await office.creator.state(push) == "proposed")
            var settings = office.service.settings
            settings.pushes.approvalAboveUsers = nil
            await office.service.server.reload(settings)
            let other = try await office.creator.create()
            #expect(try await office.creator.shown(other)["counted_users"] == .null)
            try await office.creator.waitUntilDone(other)
        }
    }

    @Test("The creator's key cannot approve or reject, whatever its scopes; keys are told apart by id, not by name")
    func ownKey() async throws {
        try await Self.withOffice { office in
            let push = try await office.propose()
            for decision in ["approve", "reject"] {
                let refused = try await office.creator.post("\(push)/\(decision)")
                #expect(refused.status == 409)
                #expect(refused.problem == "own-push")
            }
            // The key in the settings has created nothing here, and has all scopes.
            #expect(try await office.service.api.control(push, "approve") == 200)
            #expect(try await office.creator.shown(push)["approved_by"] == "operator.key")
            let own = try await office.service.api.create(Self.everyone, gcm("own"))
            #expect(try await office.service.api.post("\(own)/approve").problem == "own-push")
            #expect(try await office.service.api.state(own) == "proposed")
            #expect(try await office.approver.control(own, "approve") == 200)
            for push in [push, own] { try await office.creator.waitUntilDone(push) }
            #expect(office.kakao.reachedOnce(1...10) && office.kakao.reachedOnce(1...10, marker: "own"))
        }
    }

    @Test("Keys that were created with each other count as one: they cannot approve each other's pushes")
    func relatedKeys() async throws {
        try await Self.withOffice { office in
            func make(_ caller: TestClient, _ scopes: [String]) async throws -> TestClient {
                let scopes = JSONValue.array(scopes.map { .string($0) })
                let answer = try await caller.post("/v1/keys", json: ["name": "made", "scopes": scopes])
                return office.service.api.with("Bearer \(try #require(answer.json?["key"]?.string))")
            }
            let root = office.service.api.with("Bearer \(try await Office.makeKey("root", [.admin], office.database))")
            let manager = try await make(root, ["admin"])
            let creator = try await make(manager, ["admin"])
            let push = try await creator.create(Self.everyone)
            // Those that made the creator's key, and those that were made with it, directly and in a chain.
            let descendant = try await make(try await make(creator, ["admin"]), ["approve"])
            // A deleted key still relates others.
            let keys = try await creator.get("/v1/keys").json?["items"]?.array
            let id = try #require(keys?.first { $0["created_by"] == "root" }?["id"]?.string)
            #expect(try await root.delete("/v1/keys/\(id)").status == 204)
            for caller in [root, descendant, creator] {
                for decision in ["approve", "reject"] {
                    let refused = try await caller.post("\(push)/\(decision)")
                    #expect(refused.status == 409)
                    #expect(refused.problem == "own-push", "\(refused.text)")
                }
            }
            let detail = try await root.post("\(push)/approve").json?["detail"]?.string ?? ""
            #expect(detail.contains("one was created with the other"), "\(detail)")
            #expect(try await office.creator.state(push) == "proposed")
            // Another key of the same creator is not related to it.
            let sibling = try await make(root, ["approve"])
            #expect(try await sibling.control(push, "approve") == 200)
            try await office.creator.waitUntilDone(push)
            #expect(try await root.post("\(push)/approve").problem == "own-push")
            // What operator.key has made does not approve its pushes.
            let ofSettings = try await make(office.service.api, ["approve"])
            let own = try await office.service.api.create(Self.everyone, gcm("own"))
            #expect(try await ofSettings.post("\(own)/approve").problem == "own-push")
            #expect(try await office.approver.control(own, "approve") == 200)
        }
    }

    @Test("An approval that is repeated, with the same key or another one, changes nothing")
    func twice() async throws {
        try await Self.withOffice { office in
            let push = try await office.propose()
            #expect(try await office.approver.control(push, "approve") == 200)
            let approvedAt = try await office.creator.shown(push)["approved_at"]
            try await office.creator.waitUntilDone(push)
            for caller in [office.approver, office.service.api] {
                let again = try await caller.post("\(push)/approve")
                #expect(again.status == 200)
                #expect(again.json?["approved_by"] == "shop")
                #expect(again.json?["approved_at"] == approvedAt)
                #expect(again.json?["state"] == "done")
            }
            #expect(try await office.approver.post("\(push)/reject").problem == "wrong-state")
            #expect(try await office.creator.post("\(push)/approve").problem == "own-push")
            #expect(office.kakao.sandbox.reached(marker: "m").times == 10)
        }
    }

    @Test("A push that nobody approves within a day, or before it expires, expires; an approval is then rejected")
    func late() async throws {
        try await Self.withOffice { office in
            let pushes = [
                try await office.propose(), try await office.propose(),
                try await office.propose(["expires_at": time(in: 3600)]), try await office.propose(),
            ]
            try await office.set("created_at = now() - interval '23 hours 50 minutes'", pushes[0])
            try await office.set("created_at = now() - interval '24 hours'", pushes[1])
            try await office.set("expires_at = now()", pushes[2])
            for push in pushes[1...2] { try await office.creator.waitFor("expired", push) }
            // This one is no longer approved either, although no server has ended it so far.
            try await office.set("created_at = now() - interval '24 hours'", pushes[3])
            let waiting = try await office.creator.shown(pushes[3])
            #expect(waiting["state"] == "proposed")
            #expect(waiting["awaits_approval"] == false)
            let refused = try await office.approver.post("\(pushes[3])/approve")
            #expect(refused.status == 409)
            #expect(refused.problem == "wrong-state")
            #expect(
                refused.json?["detail"]
                    == "Cannot approve a push in state `expired`. It has ended. A copy of it can be sent."
            )
            for push in pushes.dropFirst() {
                let shown = try await office.creator.shown(push)
                #expect(shown["state"] == "expired")
                #expect(shown["finished_at"]?.string != nil)
                #expect(shown["reason"] == "It was not approved in time.")
                for decision in ["approve", "reject"] {
                    #expect(try await office.approver.control(push, decision) == 409)
                }
            }
            #expect(try await office.approver.control(pushes[0], "approve") == 200)
            try await office.creator.waitUntilDone(pushes[0])
            #expect(office.kakao.sandbox.reached(marker: "m").times == 10)
        }
    }

    @Test("A key without the scope, and a revoked key, approve nothing")
    func unauthorized() async throws {
        try await Self.withOffice { office in
            let push = try await office.propose()
            let sender = try await Office.makeKey("sender", [.send, .operate, .read], office.database)
            for decision in ["approve", "reject"] {
                let refused = try await office.service.api.with("Bearer \(sender)").post("\(push)/\(decision)")
                #expect(refused.status == 403)
                #expect(refused.json?["detail"] == "This key does not have the scope approve.")
            }
            #expect(try await office.approver.state(push) == "proposed")
            #expect(try await OperatorKeyStore(pool: office.database.pool).revoke(name: "shop") == 2)
            try await eventually("the key is rejected") { try await office.approver.get("/v1/pushes").status == 401 }
            #expect(try await office.approver.control(push, "approve") == 401)
            #expect(try await office.service.api.state(push) == "proposed")
        }
    }

    @Test("A rejected push is canceled, with the reason and the name of the key, and cannot be approved")
    func rejected() async throws {
        try await Self.withOffice { office in
            let push = try await office.propose()
            let reason: JSONValue = ["reason": "Wrong price"]
            let rejection = try await office.approver.post("\(push)/reject", json: reason)
            #expect(rejection.status == 200)
            #expect(rejection.json?["state"] == "canceled")
            #expect(rejection.json?["reason"] == "Rejected: Wrong price")
            #expect(rejection.json?["stopped_by"] == "shop")
            #expect(rejection.json?["finished_at"]?.string != nil)
            #expect(try await office.approver.post("\(push)/reject").json?["reason"] == "Rejected: Wrong price")
            for caller in [office.approver, office.service.api] {
                #expect(try await caller.post("\(push)/approve").problem == "wrong-state")
            }
            let unexplained = try await office.propose()
            #expect(try await office.approver.post("\(unexplained)/reject").json?["reason"] == "Rejected.")
            // The creator's own way back.
            let canceled = try await office.propose()
            for control in ["pause", "resume", "retry"] {
                #expect(try await office.creator.control(canceled, control) == 409)
            }
            #expect(try await office.creator.control(canceled, "cancel") == 200)
            #expect(try await office.approver.control(canceled, "approve") == 409)
            #expect(try await office.approver.control("/v1/pushes/\(UUID())", "approve") == 404)
            try await office.sendAnother()
            #expect(office.kakao.sandbox.reached(marker: "m").times == 0)
        }
    }

    @Test("Of an approval and a rejection at once, on two servers, exactly one wins")
    func race() async throws {
        try await Self.withOffice { office in
            try await RunningServer.with(office.service.settings) { other in
                let rejecter = other.with("Bearer \(Keys.operator)")
                var approved = 0
                for number in 0..<20 {
                    let marker = "race-\(number)"
                    let push = try await office.creator.create(Self.everyone, gcm(marker))
                    async let approval = office.approver.post("\(push)/approve").status
                    async let rejection = rejecter.post("\(push)/reject").status
                    let statuses = try await [approval, rejection]
                    #expect(statuses.sorted() == [200, 409])
                    if statuses[0] == 200 {
                        approved += 1
                        try await office.creator.waitUntilDone(push)
                        #expect(office.kakao.reachedOnce(1...10, marker: marker))
                    } else {
                        #expect(try await office.creator.state(push) == "canceled")
                        #expect(office.kakao.sandbox.reached(marker: marker).times == 0)
                    }
                }
                #expect(office.kakao.sandbox.stats.requests["/v1/push/send"] ?? 0 == approved)
            }
        }
    }

    @Test("Of an approval and the end of its time at once, exactly one wins")
    func expiryRace() async throws {
        try await Self.withOffice { office in
            let store = PushStore(pool: office.database.pool)
            for number in 0..<20 {
                let push = try await office.propose()
                try await office.set("created_at = now() - interval '24 hours' + interval '\(number) ms'", push)
                async let approval = office.approver.post("\(push)/approve").status
                try await store.expireProposals()
                let status = try await approval
                try await store.expireProposals()
                #expect(try await (office.creator.state(push) == "expired") == (status == 409))
                if status == 200 { try await office.creator.waitUntilDone(push) }
            }
        }
    }

    // MARK: What a proposed push keeps

    @Test("An approved push is scheduled, or begins at once if its time has passed")
    func scheduled() async throws {
        try await Self.withOffice { office in
            let later = try await office.propose(["send_at": time(in: 3600)])
            let past = try await office.propose(["send_at": time(in: 3600)])
            try await office.set("send_at = now() - interval '1 hour'", past)
            try await office.sendAnother()
            #expect(try await office.creator.state(past) == "proposed")
            for push in [later, past] { #expect(try await office.approver.control(push, "approve") == 200) }
            try await office.creator.waitUntilDone(past)
            #expect(try await office.creator.state(later) == "scheduled")
            #expect(office.kakao.reachedOnce(1...10))
        }
    }

    @Test("A repeated request gets the first response, without counting the users again")
    func idempotent() async throws {
        try await Self.withOffice { office in
            let creator = office.creator.with(idempotencyKey: "sale")
            let first = try await creator.post("/v1/pushes", json: pushBody(Self.everyone))
            #expect(first.json?["state"] == "proposed")
            let push = try #require(first.headerFields[.location])
            #expect(try await office.approver.control(push, "approve") == 200)
            try await creator.waitUntilDone(push)
            // Counting would fail now.
            try await office.database.pool.write("ALTER TABLE devices RENAME TO absent")
            let again = try await creator.post("/v1/pushes", json: pushBody(Self.everyone))
            #expect(again.status == 202)
            #expect(again.body == first.body)
            #expect(again.headerFields[.location] == push)
            let other = try await creator.post("/v1/pushes", json: pushBody(["tags_any": ["a"]]))
            #expect(other.problem == "idempotency-key-in-use")
            try await office.database.pool.write("ALTER TABLE absent RENAME TO devices")
        }
    }

    @Test("A proposed push keeps the users of stored audiences, also of one that it leaves out")
    func storedAudiences() async throws {
        try await Self.withOffice { office in
            for (name, users) in [("all", 1...10), ("some", 9...10)] {
                let lines = users.map { "\($0)\n" }.joined()
                #expect(try await office.service.api.put("/v1/audiences/\(name)", Array(lines.utf8)).status == 201)
            }
            let push = try await office.creator.create(
                ["audience": "all"],
                gcm(),
                ["except": ["audience": "some"]]
            )
            #expect(try await office.creator.shown(push)["counted_users"] == 8)
            for name in ["all", "some"] {
                #expect(try await office.service.api.delete("/v1/audiences/\(name)").status == 204)
            }
            #expect(try await office.database.pool.write(DeleteUnusedAudienceParts(limit: 100)) as Int == 0)
            #expect(try await office.approver.control(push, "approve") == 200)
            try await office.creator.waitUntilDone(push)
            #expect(office.kakao.reachedOnce(1...8))
            #expect(office.kakao.sandbox.reached(marker: "m").times == 8)
            #expect(try await office.database.pool.write(DeleteUnusedAudienceParts(limit: 100)) as Int == 2)
        }
    }

    @Test("A push that leaves out a proposed one waits for its approval")
    func exclusion() async throws {
        try await Self.withOffice { office in
            let first = try await office.creator.create(uuids(1...6), gcm("first"))
            let id = JSONValue.string(first.split(separator: "/").last.map(String.init) ?? "")
            let second = try await office.propose(["except": ["pushes": [id]]])
            #expect(try await office.approver.control(second, "approve") == 200)
            try await office.sendAnother()
            #expect(try await office.creator.shown(second)["waits_for"] == [id])
            #expect(office.kakao.sandbox.reached(marker: "m").times == 0)
            #expect(try await office.approver.control(first, "approve") == 200)
            try await office.creator.waitUntilDone(second)
            #expect(office.kakao.reachedOnce(7...10))
            #expect(office.kakao.sandbox.reached(marker: "m").times == 4)
            #expect(office.kakao.reachedOnce(1...6, marker: "first"))
            // Not one that may be sent after it.
            let later = try await office.propose(["send_at": time(in: 3600)])
            let laterID = JSONValue.string(later.split(separator: "/").last.map(String.init) ?? "")
            let refused = pushBody(Self.everyone, gcm(), ["except": ["pushes": [laterID]]])
            #expect(try await office.creator.post("/v1/pushes", json: refused).field == "except.pushes")
        }
    }

    @Test("A push that was approved is sent although the server is killed before it begins")
    func crash() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var environment = RunningProgram.environment(database, kakao)
            environment["PUSHES_APPROVAL_ABOVE_USERS"] = "5"
            try await database.addPhones(1...10)
            let key = try await Office.makeKey("approver", [.approve], database)
            let process = try await RunningProgram.start(environment: environment)
            let api = TestClient(url: try await process.url())
            #expect(try await api.post("/v1/sender/stop", json: ["reason": "test"]).status == 200)
            let (push, rejected) = (try await api.create(), try await api.create(Self.everyone, gcm("no")))
            let waiting = try await api.create(Self.everyone, gcm("waiting"))
            #expect(try await api.with("Bearer \(key)").control(rejected, "reject") == 200)
            #expect(try await api.with("Bearer \(key)").control(push, "approve") == 200)
            process.send(SIGKILL)
            #expect(await process.ended() == .signaled(SIGKILL))
            #expect(kakao.requests("send") == 0)
            try await RunningProgram.with(environment: environment) { _, api in
                #expect(try await api.post("/v1/sender/start").status == 200)
                try await api.waitUntilDone(push)
                #expect(kakao.reachedOnce(1...10))
                #expect(try await api.state(rejected) == "canceled")
                #expect(try await api.state(waiting) == "proposed")
                #expect(kakao.requests("send") == 1)
            }
        }
    }

    // MARK: Growth

    @Test(
        "A push whose audience has grown by more than a tenth since it was counted is halted before any of it is sent",
        arguments: [everyone, ["tags_any": ["a"]], ["tags_all": ["a"]]],
        [2180, 2220] as [Int64]
    )
    func growth(audience: JSONValue, users: Int64) async throws {
        try await Self.withOffice(1...2000) { office in
            let tag = "UPDATE devices SET tags = '{a}'"
            try await office.database.pool.write(tag)
            let push = try await office.creator.create(audience, gcm(), ["send_at": time(in: 3600)])
            #expect(try await office.creator.shown(push)["counted_users"] == 2000)
            #expect(try await office.approver.control(push, "approve") == 200)
            try await office.database.addPhones(2001...users)
            try await office.database.pool.write(tag)
            // The push begins when it is resumed.
            #expect(try await office.creator.control(push, "pause") == 200)
            try await office.set("send_at = now()", push)
            #expect(try await office.creator.control(push, "resume") == 200)
            if users == 2220 {
                try await office.creator.waitFor("halted", push)
                try await Self.expectHalted(office, push, users: 2220)
                #expect(try await office.approver.control(push, "approve") == 200)
            }
            try await office.creator.waitUntilDone(push)
            #expect(office.kakao.reachedOnce(1...users))
            #expect(office.kakao.sandbox.reached(marker: "m").times == Int(users))
        }
    }

    private static func expectHalted(_ office: Office, _ push: String, users: Int) async throws {
        let shown = try await office.creator.shown(push)
        #expect(shown["awaits_approval"] == true)
        #expect(
            shown["reason"]?.string?.hasPrefix("The push has \(users) users, and had 2000 when it was created.") == true
        )
        #expect(office.service.log.lines.contains { $0.message == "Push halted" && $0.level == .warning })
        // Its batches exist, and none of them is claimed.
        try await office.sendAnother()
        #expect(
            try await office.database.count("push_claims WHERE push_id = '\(push.split(separator: "/").last ?? "")'")
                == 0
        )
        #expect(office.kakao.sandbox.reached(marker: "m").times == 0)
        for caller in [office.creator, office.service.api] {
            let refused = try await caller.post("\(push)/resume")
            #expect(refused.problem == "wrong-state")
            let advice = "It waits for an approval. Possible actions: approve, reject, cancel."
            #expect(refused.json?["detail"]?.string?.hasSuffix(advice) == true, "\(refused.text)")
        }
        #expect(try await office.creator.post("\(push)/approve").problem == "own-push")
    }

    @Test("Nothing of a push that was counted is sent before its preparation ends, by any server")
    func gate() async throws {
        try await Self.withOffice(1...2000) { office in
            // The last step of the preparation waits for the test.
            try await office.database.pool.write(
                """
                CREATE FUNCTION wait() RETURNS trigger AS $$
                BEGIN
                    PERFORM pg_advisory_xact_lock(7);
                    RETURN NEW;
                END
                $$ LANGUAGE plpgsql
                """
            )
            try await office.database.pool.write(
                "CREATE TRIGGER wait BEFORE INSERT ON push_parts FOR EACH ROW WHEN (NEW.number > 1) EXECUTE FUNCTION wait()"
            )
            let push = try await office.propose()
            try await RunningServer.with(office.service.settings) { other in
                try await office.database.pool.withConnection { gate in
                    try await gate.query("SELECT pg_advisory_lock(7)")
                    #expect(try await office.approver.control(push, "approve") == 200)
                    try await eventually("the last step waits") {
                        try await office.database.count(
                            """
                            pg_locks WHERE locktype = 'advisory' AND NOT granted
                                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                            """
                        ) == 1
                    }
                    #expect(try await office.database.count("push_parts WHERE batches > claimed") == 1)
                    #expect(try await office.creator.state(push) == "preparing")
                    for number in 0..<3 { try await office.sendAnother("other-\(number)") }
                    #expect(office.kakao.sandbox.reached(marker: "m").times == 0)
                    try await gate.query("SELECT pg_advisory_unlock(7)")
                }
                try await other.waitUntilDone(push)
                #expect(office.kakao.reachedOnce(1...2000))
            }
        }
    }

    @Test("A push that needed no approval may grow up to the limit, and an approval allows as many users as there are")
    func growthBelowLimit() async throws {
        try await Self.withOffice(1...10, above: 50) { office in
            func grow(_ users: ClosedRange<Int64>, _ marker: String) async throws -> String {
                let push = try await office.creator.create(Self.everyone, gcm(marker), ["send_at": time(in: 3600)])
                #expect(try await office.creator.state(push) == "scheduled")
                try await office.database.addPhones(users)
                #expect(try await office.creator.control(push, "pause") == 200)
                try await office.set("send_at = now()", push)
                #expect(try await office.creator.control(push, "resume") == 200)
                return push
            }
            try await office.creator.waitUntilDone(try await grow(11...50, "fits"))
            #expect(office.kakao.reachedOnce(1...50, marker: "fits"))
            // 50 users were counted, so 55 are allowed.
            let push = try await grow(51...56, "grown")
            try await office.creator.waitFor("halted", push)
            #expect(office.kakao.sandbox.reached(marker: "grown").times == 0)
            office.kakao.fail("send", status: 401, code: -401)
            #expect(try await office.approver.control(push, "approve") == 200)
            // Halted again, by Kakao: any key may resume it.
            try await eventually("Kakao halts it") {
                try await office.creator.shown(push)["reason"]?.string?.contains("-401") == true
            }
            #expect(try await office.creator.shown(push)["awaits_approval"] == false)
            office.kakao.sandbox.removeFaults()
            #expect(try await office.creator.control(push, "resume") == 200)
            try await office.creator.waitUntilDone(push)
            #expect(office.kakao.reachedOnce(1...56, marker: "grown"))
        }
    }

    @Test("A push whose audience has grown can be rejected, and canceled by its creator")
    func grownEnds() async throws {
        try await Self.withOffice { office in
            for (decision, caller) in [("reject", office.approver), ("cancel", office.creator)] {
                let count = try await office.database.count("devices")
                let push = try await office.propose()
                try await office.database.addPhones(Int64(count + 1)...Int64(count * 2))
                #expect(try await office.approver.control(push, "approve") == 200)
                try await office.creator.waitFor("halted", push)
                #expect(try await caller.control(push, decision) == 200)
                #expect(try await office.approver.control(push, "approve") == 409)
                #expect(try await office.creator.state(push) == "canceled")
            }
            try await office.sendAnother()
            #expect(office.kakao.sandbox.reached(marker: "m").times == 0)
        }
    }

    // MARK: Other operations

    @Test("In Kakao's format, a push to more users than the limit is an error that a client of Kakao's API understands")
    func kakaoFormat() async throws {
        try await Self.withOffice { office in
            let refused = try await office.creator.post(
                "/v1/push/send",
                form: ["uuids": "[1,2,3,4,5,6]", "push_message": gcm().description]
            )
            #expect(refused.status == 403)
            #expect(refused.json?["code"] == -5)
            #expect(refused.json?["detail"]?.string?.contains("approval") == true)
            #expect(refused.problem == "approval-required")
            #expect(try await office.database.count("pushes") == 0)
            try await office.creator.waitUntilDone(try await office.creator.push([1, 2, 3, 4, 5]))
        }
    }

    @Test("A push shows the key that stopped it until it is resumed")
    func stoppedBy() async throws {
        try await Self.withOffice { office in
            let push = try await office.creator.create(uuids([1]), gcm(), ["send_at": time(in: 3600)])
            func stoppedBy() async throws -> JSONValue? { try await office.creator.shown(push)["stopped_by"] }
            #expect(try await stoppedBy() == .null)
            #expect(try await office.creator.control(push, "pause") == 200)
            #expect(try await stoppedBy() == "shop")
            #expect(try await office.creator.control(push, "resume") == 200)
            #expect(try await stoppedBy() == .null)
            #expect(try await office.service.api.control(push, "pause") == 200)
            #expect(try await office.creator.control(push, "cancel") == 200)
            #expect(try await stoppedBy() == "shop")
            // It was canceled before.
            #expect(try await office.service.api.control(push, "cancel") == 200)
            #expect(try await stoppedBy() == "shop")
        }
    }

    @Test("approve asks only about a push that waits for an approval, and says of another one how it stands")
    func unasked() async throws {
        try await Self.withOffice { office in
            let approver = OperatorCommand("pushes", office.service.api.url, key: office.approverKey)
            func approve(_ push: String) async throws -> OperatorCommand.Result {
                let id = push.split(separator: "/").last.map(String.init) ?? "?"
                let result = try await approver.runOnTerminal(["approve", id], columns: 200)
                #expect(!result.output.contains("[y/N]"), "\(result)")
                return result
            }
            let approved = try await office.propose()
            #expect(try await office.approver.control(approved, "approve") == 200)
            try await office.creator.waitUntilDone(approved)
            let again = try await approve(approved)
            #expect(again.code == 0 && again.output.contains("The push was approved by shop at "), "\(again)")
            // One that no server has ended so far.
            let late = try await office.propose()
            try await office.set("created_at = now() - interval '24 hours'", late)
            let refused = try await approve(late)
            #expect(refused.code == 1, "\(refused)")
            #expect(refused.output.contains(/It was not approved in time|in state `expired`/), "\(refused)")
            let small = try await office.creator.create(uuids([1]), gcm(), ["send_at": time(in: 3600)])
            let needless = try await approve(small)
            let words = "Cannot approve a push in state `scheduled`. Possible actions: pause, cancel."
            #expect(needless.code == 1 && needless.output.contains(words), "\(needless)")
        }
    }

    @Test("The commands say that a push waits, how to approve it, and which key may")
    func commands() async throws {
        try await Self.withOffice { office in
            let url = office.service.api.url
            let creator = OperatorCommand("pushes", url)
            let approver = OperatorCommand("pushes", url, key: office.approverKey)
            let arguments = ["send", "--message", gcm().description, "--everyone"]
            let dry = try await creator.run(arguments + ["--dry-run"])
            #expect(dry.lines.contains("approval  needed, with another key"))
            let asked = try await creator.runOnTerminal(arguments, input: "n\n")
            #expect(asked.output.contains("The push will wait for an approval with another key. Send to 10 users"))
            let sent = try await creator.run(arguments + ["--yes"])
            #expect(sent.code == 0, "\(sent)")
            let id = try #require(sent.lines.first)
            #expect(sent.errors.contains("push-server pushes approve \(id)"))
            let proposed = try await creator.run(["list", "--state", "proposed"])
            #expect(proposed.lines[1].hasPrefix("\(id)  proposed        0/10  "), "\(proposed)")
            #expect(proposed.lines[2].hasPrefix("  by shop, ") || proposed.lines[2].hasPrefix("  by operator.key, "))
            let own = try await creator.run(["approve", id, "--yes"])
            #expect(own.errors.contains("This key has created the push. An unrelated key can"), "\(own)")
            #expect(own.errors.contains("operate withdraws it: push-server pushes cancel \(id)."), "\(own)")
            #expect(try await approver.run(["approve", id]).code == EX_USAGE)
            #expect(try await office.approver.shown("/v1/pushes/\(id)")["state"] == "proposed")
            let kept = try await approver.runOnTerminal(["approve", id], input: "n\n")
            let counted = "10 counted when it was created, none prepared yet"
            #expect(kept.code == 1 && kept.output.contains(counted), "\(kept)")
            let untested = "Kind: not given. Time: now. The message was not sent to testers."
            #expect(kept.output.contains("\(untested) Approve this push to 10 users of"), "\(kept)")
            let approved = try await approver.run(["approve", id, "--yes"]).lines.first
            #expect(["preparing", "sending", "done"].contains(approved))
            try await office.service.api.waitUntilDone("/v1/pushes/\(id)")
            let shown = try await approver.run(["show", id])
            #expect(shown.output.contains("approved_by") && shown.output.contains("operator.key"))
            let other = try await creator.run(arguments + ["--yes"]).lines[0]
            #expect(try await approver.run(["reject", other, "--reason", "Twice"]).lines == ["canceled"])
            #expect(try await creator.run(["watch", other]).errors == "The push is canceled: Rejected: Twice.\n")
            // Grown.
            let grown = try await creator.run(arguments + ["--yes"]).lines[0]
            try await office.database.addPhones(11...20)
            #expect(try await approver.run(["approve", grown, "--yes"]).code == 0)
            let watched = try await creator.run(["watch", grown])
            #expect(watched.code == 2)
            let listed = try await creator.run(["list", "--state", "proposed"])
            #expect(listed.lines.count == 3 && listed.lines[1].hasPrefix("\(grown)  halted  "), "\(listed)")
            let again = try await approver.runOnTerminal(["approve", grown], input: "n\n")
            #expect(again.output.contains("Approve this push to 20 users of"), "\(again)")
            #expect(again.output.contains(/awaits_approval +true/), "\(again)")
            #expect(again.output.contains(/approved_by +shop, before it grew/), "\(again)")
            // The reason says what to do, once.
            #expect(watched.errors.split(separator: "another key").count == 2, "\(watched)")
            #expect(watched.errors.contains("push-server pushes approve \(grown)"))
            #expect(!watched.errors.contains("resume"))
        }
    }
}
