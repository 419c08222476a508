import FoundationEssentials
import HTTPClient
import JSON
import KakaoSandbox
import Postgres
import ServiceTesting
import Settings
import TestSupport
import Testing

@testable import Channels

/// What becomes of an upload to a customer file when Kakao, the network or a server fails.
@Suite(.timeLimit(.minutes(5))) struct CustomerDeliveryTests {
    private static let update = CustomerFileTests.update
    private static let deletion = "/v1/talkchannel/delete/target_users"

    /// A failure after which an upload waits.
    enum Outage: String, CaseIterable, CustomTestStringConvertible {
        case internalError, refusedKey, anotherHost, tooLarge, lostResponse

        var testDescription: String { rawValue }

        var fault: Fault {
            var fault: Fault
            switch self {
            case .internalError:
                fault = Fault(.status)
                (fault.status, fault.code) = (500, -1)
            case .refusedKey:
                fault = Fault(.status)
                (fault.status, fault.code) = (401, -401)
            case .anotherHost: fault = Fault(.anotherHost)
            case .tooLarge:
                fault = Fault(.anotherHost)
                fault.status = 413
            case .lostResponse:
                fault = Fault(.dropAfterBody)
                fault.isCarriedOut = true
            }
            return fault
        }
    }

    /// Waits until an attempt to send an upload has failed.
    private static func failedAttempt(_ service: TestService, _ created: HTTPClientResponse) async throws -> String {
        let path = "\(CustomerFileTests.uploads)/\(try #require(created.json?["id"]?.string))"
        var reason: String?
        try await eventually("an attempt fails") {
            reason = try await service.api.get(path).json?["reason"]?.string
            return reason != nil
        }
        #expect(try await service.api.get(path).json?["state"] == "sending")
        return try #require(reason)
    }

    private static func ended(_ service: TestService, _ created: HTTPClientResponse) async throws -> JSONValue {
        try await CustomerFileTests.ended(service, try #require(created.json?["id"]?.string))
    }

    private static func users(_ service: TestService) async throws -> JSONValue? {
        try await CustomerFileTests.files(service)[0]["users"]
    }

    @Test(
        "While Kakao fails, refuses the key, is not reached or cannot answer, an upload waits; it goes on by itself",
        arguments: Outage.allCases
    )
    func outage(_ outage: Outage) async throws {
        try await CustomerFileTests.withChannels { service in
            let id = try await CustomerFileTests.createFile(service)
            for path in [Self.update, Self.deletion] {
                var fault = outage.fault
                fault.path = path
                service.kakao.sandbox.add(fault)
                let action = path == Self.update ? "update" : "delete"
                let created = try await CustomerFileTests.upload(service, id, "1\n2", action: action)
                _ = try await Self.failedAttempt(service, created)
                service.kakao.endFaults()
                let ended = try await Self.ended(service, created)
                #expect(ended["state"] == "done")
                #expect(ended["reason"] == .null)
                #expect(ended["users"]?["sent"] == 2)
                let users = try await Self.users(service)
                #expect(users == (path == Self.update ? ["app 1": [:], "app 2": [:]] : [:]))
            }
        }
    }

    @Test("A retried part does not overtake a later upload to the same file; another file's does not wait")
    func order() async throws {
        try await CustomerFileTests.withChannels { service in
            let id = try await CustomerFileTests.createFile(service)
            let other = try await CustomerFileTests.createFile(service, "other")
            var fault = Fault(.dropAfterBody)
            (fault.path, fault.isCarriedOut) = (Self.update, true)
            service.kakao.sandbox.add(fault)
            let addition = try await CustomerFileTests.upload(service, id, "1")
            _ = try await Self.failedAttempt(service, addition)
            let deletion = try await CustomerFileTests.upload(service, id, "1", action: "delete")
            let elsewhere = try await CustomerFileTests.upload(service, other, "1", action: "delete")
            #expect(try await Self.ended(service, elsewhere)["state"] == "done")
            let waiting = "\(CustomerFileTests.uploads)/\(deletion.json?["id"]?.string ?? "")"
            #expect(try await service.api.get(waiting).json?["users"]?["sent"] == 0)
            service.kakao.endFaults()
            #expect(try await Self.ended(service, deletion)["state"] == "done")
            #expect(try await Self.ended(service, addition)["state"] == "done")
            #expect(try await Self.users(service) == [:])
        }
    }

    @Test("A retried part does not overtake a later part of its upload")
    func orderOfParts() async throws {
        try await CustomerFileTests.withChannels { service in
            let id = try await CustomerFileTests.createFile(service)
            var fault = Fault(.dropAfterBody)
            (fault.path, fault.isCarriedOut, fault.times) = (Self.update, true, 1)
            service.kakao.sandbox.add(fault)
            let lines = (1...2000).map { #"{"id":"\#($0)","field":{"구매금액":1}}"# }
            let last = #"{"id":"1","field":{"구매금액":2}}"#
            let upload = try await CustomerFileTests.upload(service, id, (lines + [last]).joined(separator: "\n"))
            #expect(try await Self.ended(service, upload)["state"] == "done")
            #expect(try await Self.users(service)?["app 1"] == ["구매금액": 2])
            #expect(try await CustomerFileTests.files(service)[0]["calls"] == 3)
        }
    }

    @Test("An error that quotes the request puts no phone number and no field into the reason or the log")
    func echo() async throws {
        try await CustomerFileTests.withChannels { service in
            let id = try await CustomerFileTests.createFile(service)
            let line = #"{"id":"010-8765-4321","field":{"지역":"서귀포"}}"#
            var page = Fault(.anotherHost)
            page.path = Self.update
            page.page.body = "<html><title>Blocked: 010-8765-4321</title><body>서귀포 \(line)</body></html>"
            let hold = try #require(service.kakao.sandbox.add(page))
            let first = try await CustomerFileTests.upload(service, id, line, type: "phone")
            var reasons = [try await Self.failedAttempt(service, first)]
            for message in [
                "INVALID_USER \(line)", #"INVALID_USER "서귀포""#, "INVALID_USER 010-8765-4321, +82 10 8765 4321",
            ] {
                var fault = Fault(.status)
                (fault.path, fault.status, fault.code, fault.message) = (Self.update, 400, -2, message)
                service.kakao.sandbox.add(fault)
                service.kakao.sandbox.removeFault(hold)
                let upload = try await CustomerFileTests.upload(service, id, line, type: "phone")
                reasons.append(try await Self.ended(service, upload)["reason"]?.string ?? "")
                service.kakao.sandbox.removeFaults()
            }
            #expect(reasons[0].contains("status 403, text/html"))
            #expect(reasons.dropFirst().allSatisfy { $0.contains("INVALID_USER") })
            let shown = reasons.joined() + service.log.lines.map { "\($0)" }.joined()
            for secret in ["4321", "서귀포", "지역"] { #expect(!shown.contains(secret)) }
        }
    }

    @Test("Servers that share an upload and are killed leave it to the next one: no part is lost or out of order")
    func crash() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let servers = try await ServersUnderTest.start(
                2,
                ["--lease-milliseconds", "2000"],
                environment: RunningProgram.environment(database, kakao)
            )
            do {
                try await Self.crash(servers, database, kakao)
            } catch {
                await servers.end()
                throw error
            }
            await servers.end()
        }
    }

    private static func crash(_ servers: ServersUnderTest, _ database: TestDatabase, _ kakao: TestKakao) async throws {
        let api = servers.caller(0)
        let created = try await api.post(CustomerFileTests.creation, json: CustomerFileTests.file("vip"))
        let id = try #require(created.json?["file_id"]?.integer)
        let lines = (1...40_000).map { #"{"id":"\#($0 % 10_000)","field":{"구매금액":\#($0)}}"# }
            .filter { !$0.contains(#""id":"0""#) }
        let upload = try await api.post(
            "\(CustomerFileTests.uploads)?channel_public_id=_ZeUTxl&file_id=\(id)&user_type=app",
            Array(lines.joined(separator: "\n").utf8),
            type: "application/x-ndjson"
        )
        let uploadID = try #require(upload.json?["id"]?.string)
        func calls() async throws -> Int64 {
            let files = try await kakao.browser.get("/sandbox/customer-files").json?["items"]
            return files?[0]?["calls"]?.integer ?? 0
        }
        try await eventually("some parts are sent") { try await calls() >= 3 }
        let hold = kakao.fail("*", .latency) {
            $0.path = Self.update
            $0.milliseconds = 600_000
        }
        let before = try await calls()
        // Kakao has it, and the server waits for the response. The other one waits, too: a file has one request at a time.
        try await eventually("a part is sent whose response is held") { try await calls() > before }
        for server in 0...1 { await servers.kill(server) }
        #expect(try await database.count("customer_upload_parts WHERE lease IS NOT NULL") == 1)
        kakao.release(hold)
        try await servers.restart(1)
        let survivor = servers.caller(1)
        var ended: JSONValue?
        try await eventually("the upload is done") {
            ended = try await survivor.get("\(CustomerFileTests.uploads)/\(uploadID)").json
            return ended?["finished_at"] != .null
        }
        #expect(ended?["state"] == "done")
        #expect(ended?["users"]?["sent"] == .integer(Int64(lines.count)))
        let users = try await kakao.browser.get("/sandbox/customer-files").json?["items"]?[0]?["users"]
        #expect(users?.object?.count == 9999)
        // The last line of each user counts.
        #expect(users?["app 1"] == ["구매금액": 30_001])
        #expect(users?["app 9999"] == ["구매금액": 39_999])
    }
}
