package import HTTPServer
package import HTTPTypes
package import JSON
package import Schemas

/// A kind of error that an operation responds with. `docs/errors.md` lists all of them with their remedies.
package struct ProblemKind: Sendable, Hashable {
    package let status: HTTPResponse.Status
    /// The last part of the problem's `type`, such as `invalid-field`.
    package let name: String
    /// The cause in a few words, for the OpenAPI document.
    package let cause: String
    /// Kakao's code, if it is not that of the status.
    package let code: Int?
    /// Whether the status may be any from 400 to 499, because it is Kakao's.
    package let hasKakaoStatus: Bool

    package init(
        _ status: HTTPResponse.Status,
        code: Int? = nil,
        _ name: String,
        _ cause: String,
        hasKakaoStatus: Bool = false
    ) {
        self.status = status
        self.code = code
        self.name = name
        self.cause = cause
        self.hasKakaoStatus = hasKakaoStatus
    }

    /// The status as the OpenAPI document names it.
    var statusName: String { hasKakaoStatus ? "4XX" : String(status.code) }
}

extension ProblemKind {
    package static let invalidField = ProblemKind(
        .badRequest,
        "invalid-field",
        "A field is missing, invalid, unknown or given twice."
    )
    package static let badRequest = ProblemKind(.badRequest, "bad-request", "The request is malformed.")
    package static let invalidJSON = ProblemKind(.badRequest, "invalid-json", "The body is not a JSON object.")
    package static let unauthorized = ProblemKind(
        .unauthorized,
        "unauthorized",
        "The credential is missing, invalid or expired."
    )
    /// The code is not Kakao's for a dead token, at which its SDKs log the user out: the key is a backend's.
    package static let invalidOperatorKey = ProblemKind(
        .unauthorized,
        code: -1401,
        "invalid-operator-key",
        "The key in `X-Operator-Key` is unknown, revoked or expired. The user's token is not the cause."
    )
    package static let missingScope = ProblemKind(
        .forbidden,
        "missing-scope",
        "The key does not have the scope, or a user's token was sent in place of a key."
    )
    package static let foreignAddress = ProblemKind(
        .forbidden,
        "foreign-address",
        "The caller's address is none of those that Kakao publishes, and `kakao.source_addresses` is `refuse`."
    )
    package static let anotherUser = ProblemKind(
        .forbidden,
        "another-user",
        "A user's token was sent with another user's id."
    )
    package static let userNotLinked = ProblemKind(
        .badRequest,
        "user-not-linked",
        "The user has logged in, and is not linked to the app: the user has to sign up first."
    )
    package static let notConfigured = ProblemKind(
        .conflict,
        "not-configured",
        "The operation needs settings that are not set: the message names them."
    )
    /// ``notConfigured`` of a call with a path of Kakao's, whose clients know only Kakao's code for it.
    package static let callNotConfigured = ProblemKind(
        .forbidden,
        code: -3,
        "not-configured",
        "The call is switched off: it needs settings that are not set, which the message names."
    )
    package static let notFound = ProblemKind(.notFound, "not-found", "There is no such object.")
    package static let contentTooLarge = ProblemKind(.contentTooLarge, "content-too-large", "The body is too large.")
    package static let unsupportedMediaType = ProblemKind(
        .unsupportedMediaType,
        "unsupported-media-type",
        "The operation does not accept this `Content-Type`."
    )
    package static let tooManyRequests = ProblemKind(
        .tooManyRequests,
        "too-many-requests",
        "A user or an address sends too many requests."
    )
    package static let tooManyBadKeys = ProblemKind(
        .tooManyRequests,
        "too-many-bad-keys",
        "Too many invalid credentials came from the network, and this server has not accepted the present key before."
    )
    package static let internalError = ProblemKind(
        .internalServerError,
        "internal-server-error",
        "A bug in the server."
    )
    package static let overloaded = ProblemKind(
        .serviceUnavailable,
        "service-unavailable",
        "The server is overloaded or shutting down."
    )
    package static let databaseUnavailable = ProblemKind(
        .serviceUnavailable,
        "database-unavailable",
        "PostgreSQL is unavailable."
    )
    package static let identityUnavailable = ProblemKind(
        .serviceUnavailable,
        "identity-unavailable",
        "The user's token cannot be verified now."
    )
}

extension Problem {
    /// A problem of a declared kind.
    package init(
        of kind: ProblemKind,
        _ detail: String,
        members: JSONObject = JSONObject(),
        headerFields: HTTPFields = HTTPFields()
    ) {
        self.init(kind.status, code: kind.code, kind: kind.name, detail, members: members, headerFields: headerFields)
    }

    /// Returns the problem of a field that is missing or has an invalid value.
    ///
    /// - Parameters:
    ///   - field: The field's name as the caller knows it.
    ///   - allowed: The allowed values and nothing else, in words that follow "must be".
    ///   - note: The reason, or what to do, in sentences.
    ///   - isMissing: Whether the field is absent, for which Kakao has words of its own.
    package static func field(
        _ field: String,
        _ allowed: String,
        _ note: String? = nil,
        isMissing: Bool = false
    ) -> Problem {
        var problem = Problem(
            of: .invalidField,
            "\(field) must be \(allowed).\(note.map { " \($0)" } ?? "")",
            members: ["field": .string(field), "allowed": .string(allowed)]
        )
        problem.field = field
        if isMissing { problem.message = "The Parameter [\(field)] cannot be null." }
        return problem
    }
}

extension Record.InvalidMember {
    /// The problem of a request with this member.
    package var problem: Problem {
        .field(name, allowed, detail.map { "\($0)." }, isMissing: isMissing)
    }
}

/// The problems of requests with the cookie of a session.
extension ProblemKind {
    package static let insecurePage = ProblemKind(
        .forbidden,
        "insecure-page",
        "The operator's page needs HTTPS, or a browser on the machine of the server."
    )
    package static let foreignOrigin = ProblemKind(
        .forbidden,
        "foreign-origin",
        "A request with the cookie of a session does not come from the operator's page."
    )
    package static let keyRequired = ProblemKind(
        .forbidden,
        "key-required",
        "The operator has signed in to the page more than five minutes ago, and has to enter the key again for this operation."
    )
}
