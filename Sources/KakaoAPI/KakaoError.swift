package import HTTPClient
internal import HTTPTypes
internal import JSON

/// A call that Kakao did not answer with success.
package struct KakaoError: Error, Sendable {
    package enum Kind: Sendable {
        /// Kakao, or a gateway before it, answered with another status than success. The code is Kakao's, if it gave
        /// one; the message is Kakao's too, without the tokens that it may quote, and short.
        case refused(status: Int, code: KakaoErrorCode?, message: String)
        /// There was no answer.
        case unreachable(HTTPClientError)
        /// Success, but with a body that is not what the documents say.
        case badAnswer
    }

    package let kind: Kind
    /// How long Kakao asks to wait before the next call, at most a day.
    package let retryAfter: Duration?

    package init(kind: Kind, retryAfter: Duration? = nil) {
        self.kind = kind
        self.retryAfter = retryAfter
    }

    /// Whether Kakao may have had the request, in whole or in part: see ``HTTPClientError/bodyBytesLeft``.
    package var bodyBytesLeft: Bool {
        switch kind {
        case .refused, .badAnswer: true
        case .unreachable(let error): error.bodyBytesLeft
        }
    }
}

extension KakaoError {
    static let badAnswer = KakaoError(kind: .badAnswer)

    init(_ error: HTTPClientError) {
        self.init(kind: .unreachable(error))
    }

    /// Reads an answer that is not success: `{"msg": …, "code": …}` by Kakao, anything or nothing by a gateway.
    init(_ response: HTTPClientResponse) {
        let body = try? JSONValue(parsing: response.body, maximumDepth: 8)
        let code = body?["code"]?.integer.map { KakaoErrorCode(rawValue: Int($0)) }
        let message = ErrorMessage.scrubbed(body?["msg"]?.string ?? "")
        self.init(
            kind: .refused(status: response.status, code: code, message: message),
            retryAfter: response.headerFields[.retryAfter].flatMap { RetryAfter.duration($0) }
        )
    }
}

extension KakaoError: CustomStringConvertible {
    package var description: String {
        switch kind {
        case .refused(let status, let code?, let message): "Kakao answered \(status), code \(code.rawValue): \(message)"
        case .refused(let status, nil, _): "Kakao answered \(status)"
        case .unreachable(let error): "Kakao did not answer: \(error)"
        case .badAnswer: "Kakao's answer is not what its documents say"
        }
    }
}
