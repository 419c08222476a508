import HTTPClient
import KakaoAPI
import Runtime
import Testing

@testable import Pushes

/// Tests of the results of batches by Kakao's response, which `docs/delivery.md` has as a table.
struct BatchResultTests {
    private static func refused(_ status: Int, _ code: Int? = nil, retryAfter: Duration? = nil) -> KakaoError {
        let code = code.map { KakaoErrorCode(rawValue: $0) }
        return KakaoError(kind: .refused(status: status, code: code, message: "words"), retryAfter: retryAfter)
    }

    private static func lost(mayHaveBeenSent: Bool) -> KakaoError {
        let error = HTTPClientError(code: .connectionLost, mayHaveBeenSent: mayHaveBeenSent, message: "lost")
        return KakaoError(kind: .unreachable(error))
    }

    private static func outcome(
        _ error: KakaoError,
        attempts: Int = 1,
        claims: Int = 1,
        users: Int = 1,
        delivery: Delivery = .atLeastOnce,
        jitter: Double = 1
    ) -> BatchResult {
        BatchResult(
            error,
            attempts: attempts,
            claims: claims,
            users: users,
            delivery: delivery,
            firstDelay: .seconds(1),
            jitter: jitter
        )
    }

    private static func delay(_ outcome: BatchResult) -> Duration? {
        guard case .retry(let delay, _, _) = outcome else { return nil }
        return delay
    }

    @Test("The delay between attempts doubles from 1 s up to 10 minutes, and the tenth attempt is the last")
    func backoff() {
        let error = Self.refused(500)
        let delays = (1...9).map { Self.delay(Self.outcome(error, attempts: $0)) }
        #expect(delays == [1, 2, 4, 8, 16, 32, 64, 128, 256].map { .seconds($0) })
        #expect(Self.delay(Self.outcome(error, attempts: 2, jitter: 1.2)) == .seconds(2) * 1.2)
        guard case .failed = Self.outcome(error, attempts: 10) else {
            Issue.record("the tenth attempt is retried")
            return
        }
    }

    @Test("Kakao's Retry-After is respected up to ten minutes")
    func retryAfter() {
        #expect(Self.delay(Self.outcome(Self.refused(503, retryAfter: .seconds(30)))) == .seconds(30))
        #expect(Self.delay(Self.outcome(Self.refused(503, retryAfter: .seconds(86_400)))) == .seconds(600))
        #expect(Self.delay(Self.outcome(Self.refused(503, retryAfter: .zero))) == .seconds(1))
    }

    @Test(
        "A lost response after the body was sent may mean that users were reached; a rejection or an unsent body may not"
    )
    func mayRepeat() {
        let cases = [
            (Self.lost(mayHaveBeenSent: true), true), (Self.lost(mayHaveBeenSent: false), false),
            (Self.refused(500, -1), false),
        ]
        for (error, expected) in cases {
            guard case .retry(_, let mayRepeat, _) = Self.outcome(error) else {
                Issue.record("\(error) is not retried")
                continue
            }
            #expect(mayRepeat == expected)
        }
    }

    @Test(
        "With at-most-once delivery, a send without a response is uncertain, and one whose body was not sent is retried"
    )
    func atMostOnce() {
        guard case .uncertain = Self.outcome(Self.lost(mayHaveBeenSent: true), delivery: .atMostOnce) else {
            Issue.record("not uncertain")
            return
        }
        #expect(Self.delay(Self.outcome(Self.lost(mayHaveBeenSent: false), delivery: .atMostOnce)) == .seconds(1))
        #expect(Self.delay(Self.outcome(Self.refused(500), delivery: .atMostOnce)) == .seconds(1))
    }

    @Test(
        "A response that is not Kakao's counts no attempt, and repeats only what may have been carried out",
        arguments: [(200, true), (403, false), (500, false), (502, true), (503, false), (504, true)]
    )
    func unrecognized(status: Int, mayBeCarriedOut: Bool) {
        let error = KakaoError(kind: .unrecognized(UnrecognizedResponse(status: status)))
        let again = Self.outcome(error, attempts: 10)
        #expect(again.state == .waiting && !again.countsAttempt && again.mayRepeat == mayBeCarriedOut)
        #expect(again.status == status)
        let delays = [1, 2, 7, 100].map { Self.outcome(error, claims: $0).delay }
        #expect(delays == [1, 2, 60, 60].map { .seconds($0) })
        let once = Self.outcome(error, delivery: .atMostOnce)
        #expect(once.state == (mayBeCarriedOut ? .uncertain : .waiting) && !once.mayRepeat)
    }

    @Test("An exhausted quota pauses the sender, a rejected key halts the push, and an invalid message fails")
    func finals() {
        guard case .wait = Self.outcome(Self.refused(429), attempts: 10) else {
            Issue.record("429")
            return
        }
        guard case .halt = Self.outcome(Self.refused(401, -401), attempts: 10) else {
            Issue.record("401")
            return
        }
        guard case .failed = Self.outcome(Self.refused(400, -2)) else {
            Issue.record("-2")
            return
        }
    }

    @Test("A rate limit allows its number of requests per second in bursts of a tenth, and at least one")
    func rateLimit() {
        var limit = RateLimit(perSecond: 20, now: 0)
        #expect(limit.available(at: 0) == 2)
        limit.take(2)
        #expect(limit.available(at: 0) == 0)
        #expect(limit.wait == .milliseconds(50))
        #expect(limit.available(at: 49) == 0)
        #expect(limit.available(at: 50) == 1)
        limit.take(1)
        // Unused requests do not accumulate.
        #expect(limit.available(at: 60_000) == 2)
        var slow = RateLimit(perSecond: 1, now: 0)
        #expect(slow.available(at: 0) == 1)
        slow.take(1)
        #expect(slow.available(at: 999) == 0)
        #expect(slow.available(at: 1000) == 1)
    }
}
