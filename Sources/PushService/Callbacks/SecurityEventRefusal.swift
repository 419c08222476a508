internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// Why a security event token is not taken, as who sent it is told (RFC 8935 §2.3).
struct SecurityEventRefusal: Error {
    /// RFC 8935 §2.4.
    enum Code: String, Sendable {
        case invalidRequest = "invalid_request"
        case invalidKey = "invalid_key"
        case invalidIssuer = "invalid_issuer"
        case invalidAudience = "invalid_audience"
        case authenticationFailed = "authentication_failed"
    }

    let code: Code
    /// For people, in English.
    let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    init(_ objection: TokenVerifier.Objection) {
        switch objection {
        case .issuer: self.init(.invalidIssuer, "The token is of another issuer.")
        case .audience: self.init(.invalidAudience, "The token is for another app.")
        case .key: self.init(.invalidKey, "The token is not signed with RS256 and a key that its issuer publishes.")
        case .signature: self.init(.authenticationFailed, "The token was not signed with the key that it names.")
        }
    }

    /// 400 with `err` and `description`.
    var response: Response {
        var json = JSONWriter()
        json.object {
            $0.member("err", code.rawValue)
            $0.member("description", description)
        }
        var response = Response.json(json.bytes, status: .badRequest)
        response.headerFields[.contentLanguage] = "en"
        return response
    }
}
