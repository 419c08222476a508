internal import HTTPClient
internal import HTTPServer
internal import HTTPTypes
internal import KakaoAPI
internal import ServiceKit

// The problems of operations that depend on settings or on calls with the app key.
extension ProblemKind {
    static let notConfigured = ProblemKind(
        .conflict,
        "not-configured",
        "The operation needs settings that are not set: the message names them."
    )
}

extension Problem {
    /// The delay before a repetition if Kakao names none, in seconds.
    private static let retrySeconds: Int64 = 5

    /// The problem of an operation that needs settings, which the message names.
    static func notConfigured(_ detail: String) -> Problem { Problem(of: .notConfigured, detail) }

    static func kakaoUnavailable(_ detail: String, _ retryAfter: Duration? = nil) -> Problem {
        Problem(
            of: .kakaoUnavailable,
            detail,
            headerFields: [.retryAfter: String(retryAfter?.components.seconds ?? retrySeconds)]
        )
    }

    /// The problem of a call with the app key that did not succeed.
    ///
    /// - Parameter object: What Kakao was asked about: `the image`.
    init(_ error: KakaoError, about object: String) {
        switch error.kind {
        case .unreachable(let cause) where cause.code == .responseTooLarge || cause.code == .badResponse:
            self.init(of: .badGateway, "Kakao's response is too large, or is not HTTP.")
        case .badAnswer:
            self.init(of: .badGateway, "Kakao's response does not match its documentation.")
        // The key is this server's, so the caller cannot do anything about it.
        case .refused(401, _, _):
            self.init(
                of: .badGateway,
                "Kakao rejected this server's app key or `sharing.ka_header`. An operator must act."
            )
        case .refused(let status, let code, let message)
        where (400..<500).contains(status) && error.disposition != .retry:
            self = .refusedByKakao(object, status: status, code, message)
            if let retryAfter = error.retryAfter {
                headerFields[.retryAfter] = String(retryAfter.components.seconds)
            }
        case .refused, .unreachable:
            self = .kakaoUnavailable("Kakao, which checks \(object), is unavailable. Try again.", error.retryAfter)
        }
    }
}
