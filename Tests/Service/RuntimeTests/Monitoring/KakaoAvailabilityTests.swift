import Logging
import Testing

@testable import KakaoAPI
@testable import Runtime

/// What calls to Kakao say about pushes.
@Suite struct KakaoAvailabilityTests {
    private static func report(_ family: KakaoFamily, _ code: String) -> KakaoCallReport {
        KakaoCallReport(
            name: "oauth_token",
            family: family,
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
