import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import KakaoSandbox
import Locking
import Pushes
import Server
import ServiceTesting
import Subprocess
import SystemPackage
import TestSupport
import Testing

@testable import Identity
@testable import Settings

/// Tests of the Swift files for phone apps in `docs/mobile.md`, compiled unchanged and run against a server.
@Suite(.timeLimit(.minutes(5))) struct MobileGuideTests {
    private static let deviceID = "6F9619FF-8B86-4011-B42D-00C04FC964FF"

    /// The rest of the app. Its list of tokens stands for a Kakao SDK, and each refresh moves on to the next.
    private static let driver = """
        import Foundation

        actor Tokens {
            private var tokens: [String]

            init(_ tokens: [String]) { self.tokens = tokens }

            func token(_ isRefused: Bool) -> String {
                if isRefused {
                    print("refreshed")
                    if tokens.count > 1 { tokens.removeFirst() }
                }
                return tokens[0]
            }
        }

        let arguments = CommandLine.arguments
        let tokens = Tokens(arguments[3].split(separator: ",").map { String($0) })
        let devices = PushDevices(server: URL(string: arguments[1])!) { await tokens.token($0) }
        let deviceID = UUID(uuidString: arguments[2])!
        do {
            if arguments.count > 4, arguments[4] == "open" {
                try await devices.reportOpened(PushDevices.pushID(in: ["push_id": arguments[5]])!)
            } else if arguments.count > 4, arguments[4] == "inbox" {
                for push in try await devices.inbox() {
                    print(push.id, push.openedAt == nil ? "new" : "opened", push.notifications[0].text ?? "-")
                }
            } else if arguments.count > 4 {
                try await devices.register(deviceID: deviceID, pushToken: arguments[4])
            } else {
                try await devices.remove(deviceID: deviceID)
            }
            print("done")
        } catch {
            print("\\(error)")
        }
        """

    /// An app on a phone of one user.
    private struct App {
        let program: String
        let url: String
        /// The app's tokens. It begins with the first, and each refresh returns the next.
        let tokens: [String]

        /// Registers the phone with this push token, or removes it if there is none, and returns the app's output
        /// lines.
        func run(registering pushToken: String?) async throws -> [String] {
            try await run(pushToken.map { [$0] } ?? [])
        }

        /// Runs the app with further arguments, and returns its output lines.
        func run(_ more: [String]) async throws -> [String] {
            let arguments = [url, deviceID, tokens.joined(separator: ",")] + more
            let result = try await Subprocess.run(
                .path(FilePath(program)),
                arguments: Arguments(arguments),
                environment: .custom([:] as [Environment.Key: String]),
                output: .string(limit: 1 << 16),
                error: .combinedWithOutput
            )
            return result.standardOutput.split(separator: "\n").map { String($0) }
        }
    }

    /// Compiles the guide's file and the driver in Swift 6 mode, with warnings as errors, and returns the program's
    /// path.
    private static func build() async throws -> String {
        let folder = try TemporaryFolder.make()
        for name in ["PushDevices.swift", "PushOpens.swift"] {
            let code = try TestFiles.code(in: "docs/mobile.md", after: "```swift\n// \(name)\n")
            try writeFile(Array(code.utf8), to: "\(folder)/\(name)")
        }
        try writeFile(Array(driver.utf8), to: "\(folder)/main.swift")
        let result = try await Subprocess.run(
            .name("swiftc"),
            arguments: [
                "-swift-version", "6", "-warnings-as-errors", "\(folder)/PushDevices.swift",
                "\(folder)/PushOpens.swift",
                "\(folder)/main.swift", "-o", "\(folder)/app",
            ],
            output: .string(limit: 1 << 16),
            error: .combinedWithOutput
        )
        try #require(result.terminationStatus.isSuccess, "\(result.standardOutput)")
        return "\(folder)/app"
    }

    @Test(
        "An app with the guide's file registers and removes its phone, refreshes its token once, and retries after a 503"
    )
    func guide() async throws {
        let program = try await Self.build()
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = 123_456
            settings.identity.acceptsKakaoAccessTokens = true
            settings.pushes.inboxDays = 1
        }
        try await withService(adjust) { service in
            let sandbox = service.kakao.sandbox
            func app(_ tokens: String?...) throws -> App {
                App(program: program, url: service.api.url, tokens: try tokens.map { try #require($0) })
            }
            let right = sandbox.accessToken(of: 7)
            let expired = sandbox.accessToken(of: 7, expiresInSeconds: 0)
            let phone = "\(Self.deviceID) apns 0a1b2c"

            #expect(try await app(right).run(registering: "0a1b2c") == ["done"])
            #expect(try await service.kakao.tokens(of: 7) == [phone])
            #expect(try await app(right).run(registering: nil) == ["done"])
            #expect(try await service.kakao.tokens(of: 7).isEmpty)

            #expect(try await app(expired, right).run(registering: "0a1b2c") == ["refreshed", "done"])
            #expect(try await service.kakao.tokens(of: 7) == [phone])
            // The app refreshes its token only once, even if the next one is refused too.
            #expect(try await app(expired).run(registering: "0a1b2c") == ["refreshed", "tokenRefused"])
            #expect(try await app(expired).run(registering: nil) == ["refreshed", "tokenRefused"])

            // The token cannot be verified for a moment.
            var hiccup = Fault(.status)
            hiccup.path = "/v1/user/access_token_info"
            hiccup.status = 503
            hiccup.retryAfterSeconds = 1
            hiccup.times = 2
            sandbox.add(hiccup)
            #expect(try await app(sandbox.accessToken(of: 8)).run(registering: "of 8") == ["done"])
            #expect(try await service.kakao.tokens(of: 8) == ["\(Self.deviceID) apns of 8"])
            // The app does not wait for a long Retry-After, since a user who logs out does not wait that long either.
            hiccup.times = nil
            hiccup.retryAfterSeconds = 60
            sandbox.add(hiccup)
            #expect(try await app(sandbox.accessToken(of: 8)).run(registering: nil) == ["unavailable"])
            sandbox.removeFaults()

            // The app treats 202 as success.
            service.kakao.fail("register", .down)
            #expect(try await app(right).run(registering: "new") == ["done"])
            sandbox.removeFaults()
            try await eventually("Kakao has the new token") {
                try await service.kakao.tokens(of: 7) == ["\(Self.deviceID) apns new"]
            }

            // The phone has opened a push, which its inbox shows.
            let text: JSONValue = ["for_apns": ["message": "Half price"], "for_gcm": ["custom_field": ["a": "b"]]]
            let push = try await service.api.create(uuids([7]), text)
            try await service.api.waitUntilDone(push)
            let id = push.split(separator: "/").last.map { $0.uppercased() } ?? ""
            #expect(try await app(right).run(["inbox"]) == ["\(id) new Half price", "done"])
            #expect(try await app(expired, right).run(["open", id]) == ["refreshed", "done"])
            #expect(try await app(right).run(["inbox"]) == ["\(id) opened Half price", "done"])
            #expect(try await service.api.shown(push)["opened"] == 1)

            let wrong = try await app(right).run(registering: "")
            #expect(wrong.count == 1)
            #expect(wrong.first?.hasPrefix("refused(status: 400, detail: \"push_token must be") == true)
        }
        // A log-out waits for ten seconds in all, and not for the late answer to the last retry.
        let calls = Locked(0)
        func addRoutes(to router: inout Router) {
            router.on(.delete, "/v1/devices/{id}") { _ in
                let isFirst = calls.withLock { calls in
                    calls += 1
                    return calls == 1
                }
                if isFirst { return Response(.serviceUnavailable, headerFields: [.retryAfter: "5"]) }
                try await Task.sleep(for: .seconds(9))
                return Response(.noContent)
            }
        }
        try await withStubServer(addRoutes) { url async throws in
            let app = App(program: program, url: url, tokens: ["token"])
            #expect(try await app.run(registering: nil) == ["unavailable"])
            #expect(calls.withLock { $0 } == 2)
        }
    }
}
