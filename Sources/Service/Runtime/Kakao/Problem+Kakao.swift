import Endpoints
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI

// The problems of requests that depend on a call to Kakao.
extension ProblemKind {
    /// Kakao rejected the token of a request.
    package static let loginRequired = ProblemKind(
        .unauthorized,
        "login-required",
        "Kakao rejected the access token: the user must log in again."
    )
    package static let badGateway = ProblemKind(
        .badGateway,
        "bad-gateway",
        "Kakao returned a response that its documentation does not describe."
    )
    /// Kakao refuses the server itself. It is never 401, for which an app would log its user out.
    package static let serverRefused = ProblemKind(
        .badGateway,
        "server-refused-by-kakao",
        "Kakao rejected this server's key or address: an operator must act."
    )
    package static let kakaoUnavailable = ProblemKind(.serviceUnavailable, "kakao-unavailable", "Kakao is unavailable.")
    package static let refusedByKakao = ProblemKind(
        .badRequest,
        "refused-by-kakao",
        "Kakao rejected the call.",
        hasKakaoStatus: true
    )
    package static let consentRequired = ProblemKind(
        .forbidden,
        "consent-required",
        "The user must consent to the scopes in `required_scopes`."
    )
    package static let outcomeUnknown = ProblemKind(
        .gatewayTimeout,
        "outcome-unknown",
        "Kakao did not respond in time, and may or may not have carried out the call."
    )
}

extension Problem {
    /// Returns the problem of a call that Kakao rejects, with Kakao's status, code, text and members.
    ///
    /// - Parameter call: The call, in words that follow "Kakao rejected".
    package static func refusedByKakao(_ call: String, _ error: KakaoError) -> Problem {
        guard case .refused(let status, let code, let message) = error.kind else {
            return Problem(of: .badGateway, "The call to Kakao failed.")
        }
        var problem = Problem(
            HTTPResponse.Status(integerLiteral: (400..<500).contains(status) ? status : 400),
            code: code?.rawValue,
            kind: ProblemKind.refusedByKakao.name,
            "Kakao rejected \(call)" + (message.isEmpty ? "." : ": \(message)")
        )
        problem.quote(error.answer)
        return problem
    }

    /// The members of problems that have a meaning here, which Kakao's do not replace.
    private static let ownMembers: Set = [
        "type", "title", "status", "detail", "instance", "code", "msg", "field", "allowed", "consent_url",
        "kauth_error",
    ]

    /// Adds Kakao's text and members, and names Kakao as the one who has answered.
    private mutating func quote(_ answer: ErrorAnswer) {
        answerer = .kakao
        if !answer.text.isEmpty { message = answer.text }
        for (name, value) in answer.members.members where !Self.ownMembers.contains(name) && members[name] == nil {
            members[name] = value
        }
    }

    /// The delay before a repetition if Kakao names none, in seconds.
    private static let retrySeconds: Int64 = 5

    /// Returns the problem of a call that did not succeed, with Kakao's status and code where they concern the caller.
    ///
    /// - Parameters:
    ///   - object: What Kakao was called about: `the access token`.
    ///   - isIdempotent: Whether the caller may repeat the call without knowing its outcome.
    ///   - keepsStatus: Whether the caller gets Kakao's status even for a temporary fault, as from Kakao's own API.
    ///   - consentURL: Returns the page where the user logs in and agrees to scopes.
    package init(
        _ error: KakaoError,
        about object: String,
        isIdempotent: Bool,
        keepsStatus: Bool = false,
        consentURL: (_ scopes: [String]) -> String? = { _ in nil }
    ) {
        switch error.kind {
        case .unreachable(let cause) where cause.code == .responseTooLarge || cause.code == .badResponse:
            self.init(of: .badGateway, "Kakao's response is too large, or is not HTTP.")
        case .unreachable:
            self = isIdempotent || !error.mayHaveBeenSent ? .kakaoUnavailable(error) : .outcomeUnknown
        case .unrecognized where error.hasUnknownOutcome && !isIdempotent: self = .outcomeUnknown
        case .unrecognized(let response) where response.isTemporary:
            self = .kakaoUnavailable(error)
        case .unrecognized(let response):
            self.init(
                of: .badGateway,
                "The response with status \(response.status) is not Kakao's. Something else responds in its place."
            )
        case .refused(let status, let code, let message):
            let words = message.isEmpty ? "" : ": \(message)"
            switch (error.disposition, status) {
            case (.logIn, _) where error.credential == .userToken:
                self.init(of: .loginRequired, "Kakao rejected the access token\(words). The user must log in again.")
                reason = error.tokenRejection?.rawValue
                quote(error.answer)
                setConsentURL(consentURL([]))
            case (.consent, _):
                self.init(
                    .forbidden,
                    code: code?.rawValue,
                    kind: ProblemKind.consentRequired.name,
                    "The user has not consented to what this call needs\(words)",
                    members: ["required_scopes": .array(error.requiredScopes.map { .string($0) })]
                )
                quote(error.answer)
                setConsentURL(consentURL(error.requiredScopes))
            // The key is this server's, so the caller cannot do anything about it.
            case (.halt, _) where status == 401 || error.oauthError != nil:
                self.init(
                    of: .serverRefused,
                    "Kakao rejected this server's \(error.keyName)\(words). An operator must act."
                )
            case (.retry, 400..<500) where !keepsStatus: self = .kakaoUnavailable(error)
            // Too many tokens were issued to the user (KOE237). Kakao counts over ten minutes.
            case (.wait, 400..<500) where error.oauthError != nil:
                self = .kakaoUnavailable(error, retrySeconds: 600)
            case (_, 400..<500):
                self = .refusedByKakao(object, error)
                if let retryAfter = error.retryAfter {
                    headerFields[.retryAfter] = String(retryAfter.components.seconds)
                }
            default:
                self = .kakaoUnavailable(error)
                if keepsStatus, status == self.status.code, let code {
                    self.code = code.rawValue
                    quote(error.answer)
                }
            }
        }
        if let code = error.oauthError?.code { members["kauth_error"] = .string(code) }
    }

    /// Adds the page where the user logs in and agrees to scopes.
    package mutating func setConsentURL(_ url: String?) {
        members["consent_url"] = url.map { .string($0) }
    }

    private static var outcomeUnknown: Problem {
        Problem(
            of: .outcomeUnknown,
            "Kakao did not respond, and may or may not have carried out the call. Find out before you repeat it."
        )
    }

    private static func kakaoUnavailable(_ error: KakaoError, retrySeconds: Int64 = retrySeconds) -> Problem {
        Problem(
            of: .kakaoUnavailable,
            "Kakao is unavailable. Try again.",
            headerFields: [.retryAfter: String(error.retryAfter?.components.seconds ?? retrySeconds)]
        )
    }
}

extension KakaoError {
    /// What Kakao refuses: the address of the server, or the key with which the call was made.
    fileprivate var keyName: String {
        if refusesAddress { return "address" }
        return switch credential {
        case .adminKey, .adminKeyForUser, .userToken: "Admin key"
        case .restAPIKey: "REST API key"
        case .appKey: "app key or `sharing.ka_header`"
        case .appKeyOfCaller: "app key"
        case .none: "app key, client secret or redirect URI"
        }
    }
}
