import KakaoAPI
import Testing

@testable import Devices

/// Tests of the lifetime that stands in for Kakao's answer.
@Suite struct LastLifetimesTests {
    @Test("Each push type has the lifetime that Kakao last gave for it; before the first, the one of the settings")
    func last() {
        let lifetimes = LastLifetimes(days: 30)
        #expect(lifetimes.lifetime(of: .apns) == .days(30))
        lifetimes.record(.days(12), of: .fcm)
        #expect(lifetimes.lifetime(of: .fcm) == .days(12))
        #expect(lifetimes.lifetime(of: .apns) == .days(30))
        lifetimes.record(.never, of: .fcm)
        #expect(lifetimes.lifetime(of: .fcm) == .never)
        lifetimes.record(.days(0), of: .fcm)
        #expect(lifetimes.lifetime(of: .fcm) == .days(0))
    }
}
