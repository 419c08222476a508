import FoundationEssentials
import HTTPClient
import HTTPServer
import KakaoAPI
import Runtime
import Testing

@testable import Endpoints
@testable import Messages
@testable import ServiceKit
@testable import Sharing

/// What becomes of a receiver, by Kakao's response: the table of `docs/messages.md`.
@Suite struct ReceiverResultTests {
    @Test("A friendship that Kakao does not know yet is tried once more, after two minutes")
    func friendship() {
        let first = Self.result(.notFriend, Self.claim())
        #expect(first.state == .waiting && first.secondsUntilDue == 120 && !first.isCounted)
        let second = Self.result(.notFriend, Self.claim(attempts: 2, lastCode: -502))
        #expect(second.state == .failed && second.reason == .notAFriend)
    }

    @Test(
        "Refusals that last are final",
        arguments: [
            (KakaoErrorCode.messagesRefused, Reason.refusesMessages),
            (.senderMonthlyLimitExceeded, .senderMonthlyQuota),
            (.notTalkUser, .noTalkUser), (.userNotLinked, .notLinked), (.deviceUnsupported, .unsupportedDevice),
            (.noPermission, .notAllowed), (.missingScope, .missingScope), (.invalidParameter, .invalidMessage),
        ]
    )
    func final(code: KakaoErrorCode, reason: Reason) {
        let result = Self.result(code, Self.claim())
        #expect(result.state == .failed && result.reason == reason && result.code == code.rawValue)
        #expect(!result.isCounted)
    }

    @Test(
        "A quota of a day makes the receiver wait for the next one, or fail",
        arguments: [
            (KakaoErrorCode.senderDailyLimitExceeded, Reason.senderQuota),
            (.receiverDailyLimitExceeded, .receiverQuota),
            (.pairDailyLimitExceeded, .pairQuota), (.quotaExceeded, .appQuota),
        ]
    )
    func quota(code: KakaoErrorCode, reason: Reason) {
        let waiting = Self.result(code, Self.claim())
        #expect(waiting.state == .waiting && waiting.secondsUntilDue == nil && waiting.reason == reason)
        let failed = Self.result(code, Self.claim(), whenOverQuota: .fail)
        #expect(failed.state == .failed && failed.reason == reason)
    }

    @Test(
        "If Kakao rejects several receivers together, each is sent on its own",
        arguments: [
            KakaoErrorCode.invalidParameter, .notFriend, .messagesRefused, .pairDailyLimitExceeded, .underAgeLimit,
        ]
    )
    func alone(code: KakaoErrorCode) {
        let result = Self.result(code, Self.claim(), batch: 3)
        #expect(result.state == .pending && result.isAlone && !result.isCounted)
    }

    @Test("A receiver that is sent on its own is at the beginning: a friendship is tried twice")
    func friendshipAlone() {
        #expect(Self.result(.notFriend, Self.claim(), batch: 3).code == nil)
    }

    @Test(
        "A quota of calls a minute is not the quota of messages a day",
        arguments: [nil, KakaoErrorCode.quotaExceeded]
    )
    func calls(code: KakaoErrorCode?) {
        let error = KakaoError(kind: .refused(status: 429, code: code, message: ""), credential: .userToken)
        let result = ReceiverResult(error, of: Self.claim(), Self.message(whenOverQuota: .fail), batch: 5, jitter: 1)
        #expect(result.state == .waiting && result.reason == .unavailable && result.secondsUntilDue == 60)
    }

    @Test("A rejected token needs a login, but not if something else than Kakao rejects it")
    func token() {
        #expect(Self.result(.invalidCredential, Self.claim()).reason == .loginRequired)
        let error = KakaoError(kind: .unrecognized(UnrecognizedResponse(status: 401)), credential: .userToken)
        let result = ReceiverResult(error, of: Self.claim(attempts: 10), Self.message(), batch: 5)
        #expect(result.state == .waiting && !result.countsAttempt && result.reason == .unavailable && !result.isCounted)
    }

    @Test(
        "What may have been carried out before something else responded is uncertain, or repeated",
        arguments: [200, 502, 504]
    )
    func intercepted(status: Int) {
        let error = KakaoError(kind: .unrecognized(UnrecognizedResponse(status: status)), credential: .userToken)
        let once = ReceiverResult(error, of: Self.claim(), Self.message(), batch: 1)
        #expect(once.state == .uncertain && once.isCounted && once.reason == .noResponse)
        let message = Self.message(delivery: .atLeastOnce)
        let again = ReceiverResult(error, of: Self.claim(attempts: 10), message, batch: 1)
        #expect(again.state == .waiting && again.mayRepeat && again.isCounted && !again.countsAttempt)
    }

    @Test("Without the settings for tokens the receivers wait for an operator, and the sender need not log in")
    func settings() {
        #expect(Refusal(Problem(of: .notConfigured, "Set a key.")).reason == .unavailable)
    }

    @Test("The response to the last attempt can be lost too: the receiver is uncertain")
    func lostAtLast() {
        let cause = HTTPClientError(code: .timedOut, mayHaveBeenSent: true, message: "")
        let error = KakaoError(kind: .unreachable(cause), credential: .userToken)
        let message = Self.message(delivery: .atLeastOnce)
        let result = ReceiverResult(error, of: Self.claim(attempts: 10), message, batch: 1)
        #expect(result.state == .uncertain && result.isCounted && result.reason == .noResponse)
    }

    @Test("What is true of the sender is true of all receivers")
    func sender() {
        #expect(Self.result(.missingScope, Self.claim(), batch: 3).state == .failed)
        #expect(Self.result(.senderDailyLimitExceeded, Self.claim(), batch: 3).state == .waiting)
    }

    @Test(
        "A lost response is uncertain, or tried again as the message says",
        arguments: [
            KakaoError.Kind.unreachable(HTTPClientError(code: .timedOut, mayHaveBeenSent: true, message: "")),
            .unreachable(HTTPClientError(code: .connectionLost, mayHaveBeenSent: true, message: "")),
        ]
    )
    func lost(kind: KakaoError.Kind) {
        let error = KakaoError(kind: kind, credential: .userToken)
        let once = ReceiverResult(error, of: Self.claim(), Self.message(), batch: 1)
        #expect(once.state == .uncertain && once.isCounted && once.reason == .noResponse)
        let again = ReceiverResult(error, of: Self.claim(), Self.message(delivery: .atLeastOnce), batch: 1)
        #expect(again.state == .waiting && again.mayRepeat && again.isCounted)
    }

    @Test(
        "A request that did not reach Kakao, or that Kakao could not carry out, is tried again up to ten times",
        arguments: [
            KakaoError.Kind.unreachable(HTTPClientError(code: .cannotConnect, mayHaveBeenSent: false, message: "")),
            .refused(status: 500, code: .internalError, message: ""),
            .refused(status: 503, code: .platformMaintenance, message: ""),
        ]
    )
    func temporary(kind: KakaoError.Kind) {
        let error = KakaoError(kind: kind, credential: .userToken)
        let first = ReceiverResult(error, of: Self.claim(), Self.message(), batch: 5)
        #expect(first.state == .waiting && !first.mayRepeat && !first.isCounted && !first.isAlone)
        #expect((0.5...2).contains(first.secondsUntilDue ?? 0))
        let last = ReceiverResult(error, of: Self.claim(attempts: 10), Self.message(), batch: 5)
        #expect(last.state == .failed && last.reason == .unavailable)
    }

    @Test("A request that waited too long for a connection was not made")
    func notMade() {
        let error = KakaoError(
            kind: .unreachable(HTTPClientError(code: .expired, mayHaveBeenSent: false, message: "")),
            credential: .userToken
        )
        #expect(ReceiverResult(error, of: Self.claim(), Self.message(), batch: 5) == .notSent)
    }

    @Test("Every reason has a remedy that ends like a sentence", arguments: Reason.allCases)
    func remedy(reason: Reason) {
        #expect(reason.remedy.hasSuffix("."))
    }

    private static func claim(attempts: Int32 = 1, lastCode: Int32? = nil) -> ReceiverClaim {
        ReceiverClaim(
            messageID: UUID(),
            position: 0,
            claims: attempts,
            attempts: attempts,
            lease: UUID(),
            uuid: "u",
            isAlone: false,
            lastCode: lastCode
        )
    }

    private static func message(
        delivery: Delivery = .atMostOnce,
        whenOverQuota: OverQuota = .wait
    ) -> SendingMessage {
        SendingMessage(
            id: UUID(),
            sender: 1,
            addressing: .friends,
            content: .custom(7, args: nil),
            delivery: delivery,
            whenOverQuota: whenOverQuota
        )
    }

    private static func result(
        _ code: KakaoErrorCode,
        _ claim: ReceiverClaim,
        batch: Int = 1,
        whenOverQuota: OverQuota = .wait
    ) -> ReceiverResult {
        let error = KakaoError(
            kind: .refused(status: 400, code: code, message: "why"),
            credential: .userToken
        )
        return ReceiverResult(error, of: claim, message(whenOverQuota: whenOverQuota), batch: batch)
    }
}
