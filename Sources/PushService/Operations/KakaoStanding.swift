internal import KakaoAPI
internal import Locking
internal import Logging

/// Whether Kakao accepts our Admin key: what it last said of it, on whatever call.
///
/// Readiness tells it, since with a refused key the server takes requests that come to nothing.
final class KakaoStanding: Sendable {
    private let refusal = Locked<String?>(nil)
    private let logger: Logger

    init(logger: Logger) {
        self.logger = logger
    }

    /// Why Kakao refuses us, or `nil` while it does not.
    var refusalReason: String? {
        refusal.withLock { $0 }
    }

    func noteAccepted() {
        let wasRefused = refusal.withLock { refusal in
            defer { refusal = nil }
            return refusal != nil
        }
        if wasRefused { logger.notice("Kakao accepts our calls again") }
    }

    func note(_ error: KakaoError) {
        guard error.disposition == .halt else { return }
        let reason = error.description
        let isNews = refusal.withLock { refusal in
            defer { refusal = reason }
            return refusal != reason
        }
        if isNews {
            logger.critical(
                "Kakao refuses our calls; check the Admin key and the app",
                metadata: ["kakao": "\(reason)"]
            )
        }
    }
}
