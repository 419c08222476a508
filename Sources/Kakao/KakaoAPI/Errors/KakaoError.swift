package import HTTPClient
import HTTPTypes
import JSON
import Schemas

/// A call to Kakao that did not succeed.
package struct KakaoError: Error, Sendable {
    package enum Kind: Sendable {
        /// Kakao, or a gateway in front of it, responded with an error status. `code` is Kakao's error code, if there
        /// is one; the code of the authorization server is in ``KakaoError/oauthError``. `message` is Kakao's text,
        /// shortened and with secrets masked.
        case refused(status: Int, code: KakaoErrorCode?, message: String)
        /// There was no response.
        case unreachable(HTTPClientError)
        /// The status reports success, but the body does not match Kakao's documentation.
        case badAnswer
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

    package init(
        kind: Kind,
        credential: KakaoCredential.Kind = .adminKey,
        retryAfter: Duration? = nil,
        requiredScopes: [String] = [],
        oauthError: OAuthError? = nil
    ) {
        self.kind = kind
        self.credential = credential
        self.requiredScopes = requiredScopes
        self.oauthError = oauthError
        self.retryAfter = retryAfter
    }

    /// Kakao's error code, if Kakao responded with one.
    package var code: KakaoErrorCode? {
        guard case .refused(_, let code, _) = kind else { return nil }
        return code
    }

    /// Whether Kakao may have received the request, in whole or in part: see ``HTTPClientError/mayHaveBeenSent``.
    package var mayHaveBeenSent: Bool {
        switch kind {
        case .refused, .badAnswer: true
        case .unreachable(let error): error.mayHaveBeenSent
        }
    }

    /// Whether Kakao may have carried out the call although no response of Kakao's says so. A gateway's 502 or 504 is no
    /// response of Kakao's (RFC 9110 §15.6.3, §15.6.5).
    package var hasUnknownOutcome: Bool {
        switch kind {
        case .refused(502, nil, _), .refused(504, nil, _): oauthError == nil
        case .refused: false
        case .unreachable, .badAnswer: mayHaveBeenSent
        }
    }
}

extension KakaoError {
    /// Parses an error response: `{"msg": …, "code": …}` from Kakao, `{"error": …, "error_description": …, "error_code":
    /// …}` from its authorization server; a gateway may send any body or none.
    ///
    /// - Parameter secrets: The secrets of the request, which Kakao's text may repeat.
    init(_ response: HTTPClientResponse, _ credential: KakaoCredential.Kind, secrets: [String]) {
        let body = try? JSONValue(parsing: response.body, maximumDepth: 8)
        let code = body?["code"]?.integer.map { KakaoErrorCode(rawValue: Int($0)) }
        // Only calls of the authorization server have no credential.
        let oauthError = credential == .none ? OAuthError(body) : nil
        let text = body?[oauthError == nil ? "msg" : "error_description"]?.string ?? ""
        let message = ErrorMessage.scrubbed(text, of: secrets)
        self.init(
            kind: .refused(status: response.status, code: code, message: message),
            credential: credential,
            retryAfter: response.headerFields[.retryAfter].flatMap { RetryAfter.duration($0) },
            requiredScopes: Self.scopes(body?["required_scopes"]),
            oauthError: oauthError
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
        case .badAnswer: "Kakao's response does not match its documentation"
        }
    }
}
