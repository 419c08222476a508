import Devices
import HTTPClient
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Identity

/// Kakao's reports of failed deliveries: `/kakao/push/feedback/{secret}`.
@Suite(.timeLimit(.minutes(5))) struct FeedbackTests {
    private static let path = "/kakao/push/feedback/\(Keys.feedback)"

    /// Reports a failure as Kakao does, as a form without an `Authorization` header.
    private static func report(
        _ service: TestService,
        _ userID: Int64,
        _ token: String,
        at milliseconds: Int64,
        path: String = FeedbackTests.path
    ) async throws -> Int {
        try await service.api.with(nil).post(
            path,
            form: ["userId": String(userID), "pushToken": token, "date": String(milliseconds)]
        ).status
    }

    private static func failures(_ service: TestService) async throws -> JSONValue? {
        try await service.api.get("/v1/users/1/devices").json?["items"]?[0]?["failures"]
    }

    /// Returns the time of the last registration in Unix milliseconds, rounded up.
    private static func registeredAt(_ service: TestService) async throws -> Int64 {
        try await service.database.integer(
            "SELECT ceil(extract(epoch FROM max(updated_at)) * 1000)::bigint FROM devices"
        )
    }

    @Test("A token that fails in three sends is deregistered here and at Kakao, and a working one is not")
    func sandboxFailures() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "dead", device: "old")
            _ = try await service.api.register(1, "alive", device: "new")
            service.kakao.sandbox.failToken("dead")
            for count in 1...3 {
                #expect(try await service.kakao.tokens(of: 1).count == 2)
                try await service.api.waitUntilDone(service.api.push([1]))
                try await eventually("report \(count) was taken") {
                    service.kakao.sandbox.stats.feedback.accepted == count
                }
            }
            try await eventually("the token is removed at Kakao") {
                try await service.kakao.tokens(of: 1) == ["new gcm alive"]
            }
            try await eventually("the device is removed here") { try await service.database.count("devices") == 1 }
            let tokens = try await service.api.get("/v1/push/tokens", ["uuid": "1"]).json?.array
            #expect(tokens?.map { $0["push_token"] } == ["alive"])
        }
    }

    @Test("Reports are counted by date: duplicates count once, and those older than the registration are ignored")
    func dates() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            let start = try await Self.registeredAt(service)
            #expect(try await Self.report(service, 1, "token", at: start - 60_000) == 200)
            #expect(try await Self.failures(service) == 0)
            for _ in 1...3 { #expect(try await Self.report(service, 1, "token", at: start + 1) == 200) }
            #expect(try await Self.failures(service) == 1)
            #expect(try await Self.report(service, 1, "token", at: start + 2) == 200)
            #expect(try await Self.failures(service) == 2)
            // Reports for another user or another token do not count.
            #expect(try await Self.report(service, 2, "token", at: start + 3) == 200)
            #expect(try await Self.report(service, 1, "other", at: start + 3) == 200)
            #expect(try await Self.failures(service) == 2)
            #expect(try await service.kakao.tokens(of: 1).count == 1)
            // The third failure deregisters the device.
            #expect(try await Self.report(service, 1, "token", at: start + 3) == 200)
            try await eventually("the device is gone") { try await service.database.count("devices") == 0 }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
        }
    }

    @Test("A registration resets the count")
    func cleared() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            var start = try await Self.registeredAt(service)
            for date in 1...2 { _ = try await Self.report(service, 1, "token", at: start + Int64(date)) }
            #expect(try await Self.failures(service) == 2)
            _ = try await service.api.register(1, "token")
            #expect(try await Self.failures(service) == 0)
            start = max(start + 2, try await Self.registeredAt(service))
            _ = try await Self.report(service, 1, "token", at: start + 1)
            #expect(try await Self.failures(service) == 1)
        }
    }

    @Test("The number of failures is configurable")
    func setting() async throws {
        let adjust = { (settings: inout Settings) in settings.devices.pruneAfterFailures = 1 }
        try await withService(adjust) { service in
            _ = try await service.api.register(1, "token")
            _ = try await Self.report(service, 1, "token", at: Self.registeredAt(service))
            try await eventually("the device is gone") { try await service.database.count("devices") == 0 }
        }
    }

    @Test("With a wrong secret, or without one in the settings, the response is 404")
    func wrongSecret() async throws {
        try await withSharedService { service in
            let right = Self.path
            for path in [right + "x", String(right.dropLast()), "/kakao/push/feedback/", "/kakao/push/feedback"] {
                let status = try await Self.report(service, 1, "token", at: 1, path: path)
                #expect(status == 404, "\(path)")
            }
        }
        let adjust = { (settings: inout Settings) in settings.identity.feedbackSecret = nil }
        try await withService(adjust) { service in
            #expect(try await Self.report(service, 1, "token", at: 1) == 404)
            _ = try await service.api.register(1, "token")
            try await service.api.waitUntilDone(service.push([1], marker: "m"))
            // Pushes then have no return_url.
            let payload = service.kakao.sandbox.deliveries().first?.payload
            #expect(payload == Array(#"{"custom_field":{"marker":"m"}}"#.utf8))
        }
    }
}
