package import HTTPTypes
package import JSON
import Net

/// An error that is shown to the caller as `application/problem+json` (RFC 9457), with Kakao's members `code` and `msg`
/// added.
///
/// A handler throws it; ``Application`` converts it to a ``Response``.
package struct Problem: Error, Sendable {
    package var status: HTTPResponse.Status
    /// A stable number, listed in `docs/errors.md`. It is Kakao's number if Kakao has one for the case, otherwise
    /// `-(1000 + status)`.
    package var code: Int
    /// A short name for the kind of problem, such as `invalid-field`. It is the last part of `type`.
    package var kind: String
    /// A sentence that says what is wrong and what to do. It contains no secret and no push token.
    package var detail: String
    /// The text of `msg`, which clients of Kakao's API read: Kakao's own words. `nil` for Kakao's usual words for `code` or, if
    /// none are known, `detail`.
    package var message: String?
    /// Who has refused the request.
    package var answerer = Answerer.server
    /// Additional members, such as `field` and `allowed` of a field error.
    package var members: JSONObject
    /// Header fields of the response, such as `Retry-After`, `Allow` and `WWW-Authenticate`.
    package var headerFields: HTTPFields
    /// The reason why a credential is not accepted, for the log and the metrics: one of a bounded number of words. Callers do not
    /// see it.
    package var reason: String?
    /// The declared name of the field that is invalid, for the log. Never a name that the caller has made up, which may be a
    /// secret in the wrong place.
    package var field: String?

    package init(
        _ status: HTTPResponse.Status,
        code: Int? = nil,
        kind: String? = nil,
        _ detail: String,
        members: JSONObject = JSONObject(),
        headerFields: HTTPFields = HTTPFields()
    ) {
        self.status = status
        self.code = code ?? KakaoWords.code(of: status)
        self.kind = kind ?? status.phrase.lowercased().split(separator: " ").joined(separator: "-")
        self.detail = detail
        self.members = members
        self.headerFields = headerFields
    }

    init(_ error: ProtocolError) {
        self.init(
            error.status,
            error.reason,
            headerFields: error.status == .serviceUnavailable ? [.retryAfter: "1"] : HTTPFields()
        )
    }

    /// The response that shows the problem.
    package var response: Response {
        var json = JSONWriter()
        json.object { json in
            json.member("type", "urn:kakao-push-server:error:\(kind)")
            json.member("title", status.phrase)
            json.member("status", status.code)
            json.member("detail", detail)
            json.member("code", code)
            json.member("msg", message ?? KakaoWords.message(of: code) ?? detail)
            for (name, value) in members.members { json.member(name, value) }
        }
        var headerFields = headerFields
        headerFields[.answeredBy] = answerer.rawValue
        var response = Response(
            status,
            contentType: "application/problem+json",
            headerFields: headerFields,
            body: json.bytes
        )
        response.problem = kind
        response.reason = reason
        response.field = field
        return response
    }
}

/// The party whose answer a caller gets, as `X-Answered-By` names it. A success without the field is the server's.
package enum Answerer: String, Sendable {
    case server
    case kakao
}

extension HTTPField.Name {
    package static let answeredBy = unvalidated("X-Answered-By")
}

extension HTTPFields {
    /// The header field of a success that is Kakao's. Made once, since responses share it without a copy.
    package static let answeredByKakao: HTTPFields = [.answeredBy: Answerer.kakao.rawValue]
}
