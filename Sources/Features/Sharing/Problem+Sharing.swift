import Endpoints
import HTTPServer
import HTTPTypes
import Runtime

extension Problem {
    /// The problem of an operation that needs settings, which the message names.
    static func notConfigured(_ detail: String) -> Problem { Problem(of: .notConfigured, detail) }

    /// The problem of an operation that waits for Kakao, or for a request that does.
    static func kakaoUnavailable(_ detail: String) -> Problem {
        Problem(of: .kakaoUnavailable, detail, headerFields: [.retryAfter: "5"])
    }
}
