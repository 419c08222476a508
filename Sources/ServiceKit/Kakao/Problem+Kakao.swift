package import HTTPServer
internal import HTTPTypes
package import KakaoAPI

// The problems of requests that depend on a call to Kakao.
extension ProblemKind {
    package static let badGateway = ProblemKind(
        .badGateway,
        "bad-gateway",
        "Kakao returned a response that its documentation does not describe."
    )
    package static let kakaoUnavailable = ProblemKind(.serviceUnavailable, "kakao-unavailable", "Kakao is unavailable.")
    package static let refusedByKakao = ProblemKind(
        .badRequest,
        "refused-by-kakao",
        "Kakao rejected the call.",
        hasKakaoStatus: true
    )
}

extension Problem {
    /// Returns the problem of a call that Kakao rejects, with Kakao's status, code and text.
    ///
    /// - Parameters:
    ///   - call: The call, in words that follow "Kakao rejected".
    ///   - message: Kakao's text, which contains no secret; empty if there is none.
    package static func refusedByKakao(
        _ call: String,
        status: Int,
        _ code: KakaoErrorCode?,
        _ message: String
    ) -> Problem {
        Problem(
            HTTPResponse.Status(integerLiteral: (400..<500).contains(status) ? status : 400),
            code: code?.rawValue,
            kind: ProblemKind.refusedByKakao.name,
            "Kakao rejected \(call)" + (message.isEmpty ? "." : ": \(message)")
        )
    }
}
