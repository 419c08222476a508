package import HTTPClient
import HTTPTypes
import JSON
import Schemas

/// A call to Kakao that did not succeed.
package struct KakaoError: Error, Sendable {
    package enum Kind: Sendable {
        /// Kakao responded with an error. `code` is Kakao's error code; `nil` for the authorization server, whose error is
        /// in ``KakaoError/oauthError``. `message` is Kakao's text for a log, shortened and with secrets masked.
        case refused(status: Int, code: KakaoErrorCode?, message: String)
        /// There was no response.
        case unreachable(HTTPClientError)
        /// Something responded, but not in Kakao's form.
        case unrecognized(UnrecognizedResponse)
    }

    package let kind: Kind
    /// The credential of the call, on which the meaning of an error depends.
    package let credential: KakaoCredential.Kind
    /// The time to wait before the next call, as requested by Kakao; at most a day.
    package let retryAfter: Duration?
    /// The scopes to which the user must consent (error -402); empty for other errors.
    package let requiredScopes: [String]
    /// The error of the authorization server; `nil` for other errors.
    package let oauthError: OAuthError?
    /// Kakao's words for a caller.
    package let answer: ErrorAnswer

    package init(
        kind: Kind,
        credential: KakaoCredential.Kind = .adminKey,
        retryAfter: Duration? = nil,
        requiredScopes: [String] = [],
        oauthError: OAuthError? = nil,
        answer: ErrorAnswer = .none
    ) {
        self.kind = kind
        self.credential = credential
        self.requiredScopes = requiredScopes
        self.oauthError = oauthError
        self.retryAfter = retryAfter
        self.answer = answer
    }

    /// Kakao's error code, if Kakao responded with one.
    package var code: KakaoErrorCode? {
        guard case .refused(_, let code, _) = kind else { return nil }
        return code
    }

    /// Whether Kakao may have received the request, in whole or in part: see ``HTTPClientError/mayHaveBeenSent``.
    package var mayHaveBeenSent: Bool {
        switch kind {
        case .refused, .unrecognized: true
        case .unreachable(let error): error.mayHaveBeenSent
        }
    }

    /// Whether Kakao may have carried out the call although no response of Kakao's says so.
    package var hasUnknownOutcome: Bool {
        switch kind {
        case .refused: false
        case .unreachable(let error): error.mayHaveBeenSent
        case .unrecognized(let response): response.mayFollowExecution
        }
    }
}

extension KakaoError {
    /// Parses a response that is no success: `{"msg": …, "code": …}` from Kakao's API, `{"error": …, "error_description": …,
    /// "error_code": …}` from its authorization server. Kakao's codes are negative. Anything else is not Kakao's word.
    ///
    /// - Parameters:
    ///   - secrets: The secrets of the request, which the response may repeat.
    ///   - hidesJSON: Whether the request has personal data in a JSON body, which logs must not have.
    init(
        _ response: HTTPClientResponse,
        from host: KakaoHost,
        _ credential: KakaoCredential.Kind,
        secrets: [String],
        hidesJSON: Bool
    ) {
        let retryAfter = response.headerFields[.retryAfter].flatMap { RetryAfter.duration($0) }
        let body = response.status >= 400 ? try? JSONValue(parsing: response.body, maximumDepth: 8) : nil
        let code = host == .api ? KakaoErrorCode(of: body) : nil
        let oauthError = host == .auth ? OAuthError(body) : nil
        guard let object = body?.object, code != nil || oauthError != nil else {
            let unrecognized = UnrecognizedResponse(response, secrets: secrets, hidesJSON: hidesJSON)
            self.init(kind: .unrecognized(unrecognized), credential: credential, retryAfter: retryAfter)
            return
        }
        let textName = oauthError == nil ? "msg" : "error_description"
        let message = ErrorMessage.scrubbed(object[textName]?.string ?? "", of: secrets, hidesJSON: hidesJSON)
        self.init(
            kind: .refused(status: response.status, code: code, message: message),
            credential: credential,
            retryAfter: retryAfter,
            requiredScopes: Self.scopes(object["required_scopes"]),
            oauthError: oauthError,
            answer: ErrorAnswer(
                object,
                textIn: textName,
                without: oauthError == nil ? ["code"] : ["error", "error_code"],
                secrets: secrets
            )
        )
    }

    /// Returns the scopes of a response, as far as they can be stored and shown.
    private static func scopes(_ value: JSONValue?) -> [String] {
        Array((value?.array ?? []).compactMap(\.string).filter { Text.isValid($0, 1...100) }.prefix(100))
    }
}

extension KakaoError: CustomStringConvertible {
    package var description: String {
        switch kind {
        case .refused(let status, let code?, let message): "Kakao answered \(status), code \(code.rawValue): \(message)"
        case .refused(let status, nil, let message):
            "Kakao answered \(status)"
                + (oauthError.map { ", \($0)" + (message.isEmpty ? "" : ": \(message)") } ?? "")
        case .unreachable(let error): "Kakao did not answer: \(error)"
        case .unrecognized(let response): "The response is not Kakao's: \(response)"
        }
    }
}
