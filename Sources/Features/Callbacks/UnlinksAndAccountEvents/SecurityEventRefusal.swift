import HTTPServer
import HTTPTypes
import Identity
import Schemas

/// The rejection of a security event token, as reported to its sender (RFC 8935 §2.3).
struct SecurityEventRefusal: Error {
    /// The error codes of RFC 8935 §2.4.
    enum Code: String, CaseIterable, Sendable {
        case invalidRequest = "invalid_request"
        case invalidKey = "invalid_key"
        case invalidIssuer = "invalid_issuer"
        case invalidAudience = "invalid_audience"
        case authenticationFailed = "authentication_failed"
    }

    let code: Code
    /// An explanation for people, in English.
    let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    init(_ reason: TokenVerifier.RejectionReason) {
        switch reason {
        case .issuer: self.init(.invalidIssuer, "The token names another issuer, or none.")
        case .audience: self.init(.invalidAudience, "The token is for another app.")
        case .key: self.init(.invalidKey, "The token must be signed with RS256 and a key that its issuer publishes.")
        case .signature: self.init(.authenticationFailed, "The token was not signed with the key that it names.")
        }
    }

    static let shape = Shape<SecurityEventRefusal>(
        "SecurityEventRefusal",
        [
            .member("err", .choice, "The error code (RFC 8935 §2.4).", \.code),
            .member("description", .text, "An explanation for people.", \.description),
        ]
    )

    /// The response: 400 with `err` and `description`.
    var response: Response {
        var response = Response.json(Self.shape.json(self), status: .badRequest)
        response.headerFields[.contentLanguage] = "en"
        return response
    }
}
