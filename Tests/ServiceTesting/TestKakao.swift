import EventLoop
import HTTPClient
import JSON
package import KakaoSandbox
import Schemas
import Server
package import TestSupport

/// A sandbox for a single test, with its log.
package struct TestKakao: Sendable {
    private static let callbackTimeout = Duration.seconds(20)

    package let sandbox: KakaoSandbox
    package let log: CollectedLog
    /// The file of the sandbox's certificate if it serves HTTPS.
    package let certificateFile: String?

    package static func with(
        _ settings: KakaoSandboxSettings = KakaoSandboxSettings(),
        _ body: (TestKakao) async throws -> Void
    ) async throws {
        let loops = try EventLoopGroup(count: 1)
        defer { loops.shutdown() }
        let kakao = try start(settings, loops: loops)
        do {
            try await body(kakao)
        } catch {
            await kakao.sandbox.shutdown()
            throw error
        }
        await kakao.sandbox.shutdown()
    }

    /// Starts a sandbox.
    static func start(
        _ settings: KakaoSandboxSettings = KakaoSandboxSettings(),
        loops: EventLoopGroup
    ) throws -> TestKakao {
        var settings = settings
        settings.adminKey = Keys.admin
        let log = CollectedLog()
        let sandbox = try KakaoSandbox(settings: settings, loops: loops, logger: log.logger)
        sandbox.start()
        return TestKakao(sandbox: sandbox, log: log, certificateFile: settings.certificateFile)
    }

    /// A caller of the sandbox without a credential, such as a browser.
    package var browser: TestClient { TestClient(url: sandbox.url, authorization: nil, checksContract: false) }

    /// Returns the tokens of a user that Kakao has, each in the form `phone gcm token`.
    package func tokens(of userID: Int64) async throws -> [String] {
        var caller = TestClient(url: sandbox.url, authorization: "KakaoAK \(Keys.admin)")
        caller.caCertificateFile = certificateFile
        let response = try await caller.get("/v1/push/tokens", ["uuid": String(userID)])
        let items = response.json?.array ?? []
        return items.map { item in
            ["device_id", "push_type", "push_token"].map { item[$0]?.string ?? "?" }.joined(separator: " ")
        }
    }

    /// The calls that Kakao has responded to, in order, such as `register 200`. Look-ups, which the tests make, are
    /// excluded.
    package var calls: [String] {
        log.messages.compactMap { message in
            guard let range = message.firstRange(of: "/push/"), message.hasPrefix("POST ") else { return nil }
            return String(message[range.upperBound...])
        }
    }

    /// Shares a message, and waits longer for the push server's response than Kakao, in case the machine is busy.
    package func share(_ share: LinkShare) async -> CallbackOutcome {
        var share = share
        share.timeout = Self.callbackTimeout
        return await sandbox.share(share)
    }

    /// Shares the message of an address that opens KakaoTalk's friend picker, as ``share(_:)`` does.
    package func share(
        at address: String?,
        _ adjust: (inout LinkShare) -> Void = { _ in }
    ) async throws -> CallbackOutcome {
        var share = try sandbox.linkShare(at: address ?? "")
        adjust(&share)
        return await self.share(share)
    }

    /// Sends an unlink notice, and waits longer for the push server's response than Kakao, in case the machine is busy.
    package func unlink(_ notice: UnlinkNotice) async -> CallbackOutcome {
        var notice = notice
        notice.timeout = Self.callbackTimeout
        return await sandbox.unlink(notice)
    }

    /// Sends an event about a channel, and waits longer for the push server's response than Kakao, in case the machine is busy.
    package func send(_ event: ChannelEvent) async -> CallbackOutcome {
        var event = event
        event.timeout = Self.callbackTimeout
        return await sandbox.send(event)
    }

    /// Sends an account event, and waits longer for the push server's response than Kakao, in case the machine is busy.
    package func send(_ event: AccountEvent) async throws -> CallbackOutcome {
        var event = event
        event.timeout = Self.callbackTimeout
        return try await sandbox.send(event)
    }

    /// Returns the number of requests for a call of version 1, including failed ones.
    package func requests(_ call: String) -> Int {
        sandbox.stats.requests["/v1/push/\(call)"] ?? 0
    }

    /// Makes calls fail from now on. Returns the id of the fault for ``KakaoSandbox/removeFault(_:)``.
    @discardableResult
    package func fail(
        _ call: String,
        _ kind: Fault.Kind = .status,
        status: Int? = nil,
        code: Int? = nil,
        times: Int? = nil,
        _ adjust: (inout Fault) -> Void = { _ in }
    ) -> Int {
        var fault = Fault(kind)
        fault.path = call == "*" ? "*" : "/v1/push/\(call)"
        fault.status = status
        fault.code = code
        fault.times = times
        adjust(&fault)
        return sandbox.add(fault) ?? 0
    }

    /// Holds the responses to calls back until ``release(_:)``. The calls are executed at once.
    ///
    /// - Parameter userIDs: The users whose calls are held; `nil` for all.
    package func hold(_ call: String, times: Int? = nil, of userIDs: Set<Int64>? = nil) -> Int {
        fail(call, .latency, times: times) { fault in
            // The longest delay: longer than any test.
            fault.milliseconds = 600_000
            fault.userIDs = userIDs
        }
    }

    /// Sends the responses that are held back, and holds no further ones.
    package func release(_ hold: Int) {
        sandbox.removeFault(hold)
        sandbox.skipDelays()
    }

    /// Removes all faults, and sends the responses that they delay.
    package func endFaults() {
        sandbox.removeFaults()
        sandbox.skipDelays()
    }
}

extension Sequence {
    /// Maps the elements with an asynchronous function, sequentially.
    package func asyncMap<Result>(_ transform: (Element) async throws -> Result) async rethrows -> [Result] {
        var results: [Result] = []
        for element in self { results.append(try await transform(element)) }
        return results
    }
}
