import Logging
import TestSupport
import Testing

@testable import KakaoAPI
@testable import Runtime

/// What calls to Kakao say about pushes.
@Suite struct KakaoAvailabilityTests {
    private static let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
    private static let foreign = KakaoError(kind: .unrecognized(UnrecognizedResponse(status: 403, server: "squid")))
    private static let refused = KakaoError(
        kind: .refused(status: 401, code: .invalidCredential, message: "wrong key")
    )
    private static let invalid = KakaoError(kind: .refused(status: 400, code: .invalidParameter, message: ""))

    private static func push(_ name: String, _ error: KakaoError?) -> KakaoCallReport {
        KakaoCallReport(
            name: name,
            family: .push,
            budget: .requests,
            credential: .adminKey,
            duration: .zero,
            error: error
        )
    }

    @Test("Only a success of the call that was refused ends its halt")
    func refusedCall() {
        let availability = KakaoAvailability(logger: Self.logger)
        availability.record(Self.push(SendPush.name, Self.refused))
        #expect(availability.senderState == .halted && availability.kakaoState == .refusing)
        availability.record(Self.push(RegisterPushToken.name, nil))
        availability.record(Self.push(DeregisterPushToken.name, nil))
        availability.record(Self.push(SendPush.name, Self.invalid))
        #expect(availability.senderState == .halted)
        availability.record(Self.push(SendPush.name, nil))
        #expect(availability.senderState == .running && availability.kakaoState == .reachable)
    }

    @Test("Kakao is failing once all calls have ended with its own errors for a while, until one succeeds")
    func failing() {
        let availability = KakaoAvailability(logger: Self.logger)
        let own = KakaoError(kind: .refused(status: 503, code: .internalError, message: "down"))
        for second in 0..<UInt64(6) {
            #expect(second == 0 || availability.kakaoState == .reachable)
            availability.record(Self.push(SendPush.name, own), at: 1000 + second * 1000)
        }
        #expect(availability.kakaoState == .failing && availability.senderState == .running)
        availability.record(Self.push(RegisterPushToken.name, nil), at: 8000)
        #expect(availability.kakaoState == .reachable)
    }

    @Test("A refused registration does not halt pushes, and holds further registrations back")
    func refusedRegistration() {
        let availability = KakaoAvailability(logger: Self.logger)
        availability.record(Self.push(RegisterPushToken.name, Self.refused))
        #expect(availability.senderState == .running && availability.kakaoState == .refusing)
        #expect(!availability.admits(.registrations) && availability.admits(.pushes))
        availability.closeCircuits()
        #expect(availability.admits(.registrations) && availability.kakaoState == .reachable)
    }

    @Test("Something else in Kakao's place makes pushes wait, and any response of Kakao's ends that")
    func intercepted() {
        let availability = KakaoAvailability(logger: Self.logger)
        availability.record(Self.push(SendPush.name, Self.foreign))
        #expect(availability.senderState == .waiting && availability.kakaoState == .intercepted)
        #expect(availability.openSender?.cause?.reason.contains("squid") == true)
        #expect(availability.lastForeignResponse?.response.status == 403)
        // It is no call that Kakao counts.
        #expect(availability.drainAnsweredCalls() == 0)
        availability.record(Self.push(SendPush.name, Self.invalid))
        #expect(availability.senderState == .running && availability.kakaoState == .reachable)
    }

    @Test("A message that a user's app sends says nothing about those that the server sends")
    func relayedMessage() {
        let availability = KakaoAvailability(logger: Self.logger)
        func message(_ budget: KakaoBudget, _ error: KakaoError?) -> KakaoCallReport {
            KakaoCallReport(
                name: SendDefaultMemo.name,
                family: .talk,
                budget: budget,
                credential: .userToken,
                duration: .zero,
                error: error
            )
        }
        availability.record(message(.requests, Self.foreign))
        #expect(availability.admits(.messages) && availability.senderState == .running)
        availability.record(message(.background, Self.foreign))
        #expect(!availability.admits(.messages) && availability.senderState == .waiting)
        availability.record(message(.requests, nil))
        #expect(!availability.admits(.messages))
        availability.record(message(.background, nil))
        #expect(availability.admits(.messages))
    }

    @Test("Calls that all fail for five seconds are logged once, and so is the first success after them")
    func streak() {
        var streak = FailureStreak()
        func add(_ hasFailed: Bool, _ time: UInt64) -> FailureStreak.Change? {
            streak.add(hasFailed: hasFailed, at: time)
        }
        // Many within a moment are a hiccup, and so are a few over a long time.
        for _ in 0..<100 { #expect(add(true, 1000) == nil) }
        #expect(add(false, 2000) == nil)
        for time: UInt64 in [3000, 5000, 7000, 9000] { #expect(add(true, time) == nil) }
        #expect(add(true, 9500) == .began(calls: 5))
        for time: UInt64 in [10_000, 60_000] { #expect(add(true, time) == nil) }
        #expect(add(false, 61_000) == .ended(calls: 7))
        #expect(add(false, 62_000) == nil)
    }

    @Test("An outage of Kakao is in the log, with the last error")
    func outage() {
        let log = CollectedLog()
        let availability = KakaoAvailability(logger: log.logger)
        let error = KakaoError(kind: .refused(status: 503, code: nil, message: "down"))
        for time in stride(from: UInt64(1000), through: 6000, by: 1000) {
            availability.record(Self.push(SendPush.name, error), at: time)
        }
        availability.record(Self.push(SendPush.name, nil), at: 7000)
        #expect(log.lines.map(\.message) == ["Kakao unavailable: all calls fail", "Kakao available again"])
        #expect(log.lines.map(\.level) == [.warning, .notice])
        #expect(log.lines.first?.metadata["kakao"]?.contains("503") == true)
    }

    @Test("Calls that fail and succeed by turns write one line of a kind a second")
    func lines() {
        let log = CollectedLog()
        let availability = KakaoAvailability(logger: log.logger)
        let start = ContinuousClock.now
        for _ in 0..<1000 {
            for error in [Self.foreign, nil] { availability.record(Self.push(SendPush.name, error)) }
        }
        let seconds = Int((ContinuousClock.now - start).components.seconds) + 1
        #expect((2...2 * (seconds + 1)).contains(log.lines.count))
    }

    @Test("While a circuit is open, one call after the other finds out whether calls succeed, ever more rarely")
    func breaker() {
        var breaker = CircuitBreaker()
        func admitted(at time: UInt64) -> Bool { breaker.admit(at: time) }
        #expect(admitted(at: 0))
        #expect(admitted(at: 0))
        breaker.record(Self.foreign, at: 1000)
        #expect(!admitted(at: 1000))
        #expect(!breaker.isHalted)
        // 1, 2, 4, … 60 s, and a fifth less or more.
        var now: UInt64 = 1000
        for seconds: UInt64 in [1, 2, 4, 8, 16, 32, 60, 60] {
            #expect((now + seconds * 800...now + seconds * 1200 + 1).contains(breaker.nextCall))
            now = breaker.nextCall
            #expect(!admitted(at: now - 1))
            #expect(admitted(at: now))
            #expect(!admitted(at: now))
            breaker.record(Self.foreign, at: now)
            #expect(breaker.isHalted == (now >= 61_000))
        }
        breaker.record(nil, at: now)
        #expect(breaker.cause == nil)
        #expect(admitted(at: now))
    }

    @Test("The time that Retry-After names is respected up to an hour, whoever responds")
    func retryAfter() {
        var breaker = CircuitBreaker()
        let kind = KakaoError.Kind.unrecognized(UnrecognizedResponse(status: 503))
        breaker.record(KakaoError(kind: kind, retryAfter: .seconds(300)), at: 0)
        #expect(breaker.nextCall == 300_000)
        breaker.record(KakaoError(kind: kind, retryAfter: .seconds(86_400)), at: 0)
        #expect(breaker.nextCall == 3_600_000)
    }

    @Test("While Kakao refuses the key, nothing but a success closes the circuit")
    func refusal() {
        var breaker = CircuitBreaker()
        breaker.record(Self.refused, at: 0)
        #expect(breaker.isHalted)
        breaker.record(Self.foreign, at: 1)
        breaker.record(Self.invalid, at: 2)
        #expect(breaker.cause == .refused(Self.refused.description))
        breaker.record(nil, at: 3)
        #expect(breaker.cause == nil && !breaker.isHalted)
    }

    private static func report(_ family: KakaoFamily, _ code: String) -> KakaoCallReport {
        KakaoCallReport(
            name: "oauth_token",
            family: family,
            budget: .requests,
            credential: .none,
            duration: .zero,
            error: KakaoError(
                kind: .refused(status: 400, code: nil, message: ""),
                credential: .none,
                oauthError: OAuthError(error: "", code: code)
            )
        )
    }

    @Test(
        "Errors of the authorization server neither halt nor pause pushes",
        arguments: [("KOE010", KakaoOutcome.halt), ("KOE237", .wait), ("KOE322", .refused), ("KOE003", .retry)]
    )
    func authorizationServer(code: String, outcome: KakaoOutcome) {
        let availability = KakaoAvailability(logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        let report = Self.report(RequestToken.operation.family, code)
        availability.record(report)
        #expect(availability.senderState == .running)
        #expect(availability.kakaoState == .reachable)
        #expect(availability.lastCall?.lastError == outcome)
        #expect(KakaoOutcome(report.error) == outcome)
    }
}
