import KakaoAPI
import Synchronization

/// The lifetime that Kakao last gave to a push token of each type. It stands in for Kakao's answer to a registration that is pending.
/// Shared by all event loops.
///
/// Kakao gives the same lifetime for years. A lifetime is therefore stored only if it differs from the last one, so that loops
/// share the value without a lock or a write per registration.
final class LastLifetimes: Sendable {
    /// Days; -1 for tokens that never expire.
    private let apns, fcm: Atomic<Int>

    /// - Parameter days: The lifetime before Kakao's first answer.
    init(days: Int) {
        apns = Atomic(days)
        fcm = Atomic(days)
    }

    /// Returns the last lifetime of a push type.
    func lifetime(of pushType: PushType) -> TokenLifetime {
        let days =
            switch pushType {
            case .apns: apns.load(ordering: .relaxed)
            case .fcm: fcm.load(ordering: .relaxed)
            }
        return days < 0 ? .never : .days(days)
    }

    /// Records Kakao's answer.
    func record(_ lifetime: TokenLifetime, of pushType: PushType) {
        guard lifetime != self.lifetime(of: pushType) else { return }
        switch pushType {
        case .apns: apns.store(lifetime.days, ordering: .relaxed)
        case .fcm: fcm.store(lifetime.days, ordering: .relaxed)
        }
    }
}
