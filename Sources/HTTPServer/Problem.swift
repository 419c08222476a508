package import HTTPTypes
package import JSON

/// An error that is shown to the caller, as `application/problem+json` (RFC 9457) with Kakao's own two members beside it.
///
/// A handler throws it; ``Application`` makes it a ``Response``.
package struct Problem: Error, Sendable {
    package var status: HTTPResponse.Status
    /// Stable and listed in `docs/errors.md`. Kakao's number where Kakao has one for the case, else `-(1000 + status)`.
    package var code: Int
    /// A short name of the kind of problem; the last part of `type`: `invalid-field`.
    package var kind: String
    /// What was wrong and what to do, in a sentence. Holds no secret and no push token.
    package var detail: String
    /// Further members: `field` and `allowed` of a field error.
    package var members: JSONObject
    /// Fields of the response: `Retry-After`, `Allow`, `WWW-Authenticate`.
    package var headerFields: HTTPFields

    package init(
        _ status: HTTPResponse.Status,
        code: Int? = nil,
        kind: String? = nil,
        _ detail: String,
        members: JSONObject = JSONObject(),
        headerFields: HTTPFields = HTTPFields()
    ) {
        self.status = status
        self.code = code ?? Self.code(of: status)
        self.kind = kind ?? status.reasonPhrase.lowercased().split(separator: " ").joined(separator: "-")
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

    /// The number that a client written for Kakao's API expects with a status.
    private static func code(of status: HTTPResponse.Status) -> Int {
        switch status.code {
        case 400: -2
        case 401: -401
        case 403: -5
        case 429: -10
        case 500: -1
        case 503: -9798
        default: -(1000 + status.code)
        }
    }

    /// The answer that says it.
    package var response: Response {
        var json = JSONWriter()
        json.object { json in
            json.member("type", "urn:kakao-push-server:error:\(kind)")
            json.member("title", status.reasonPhrase)
            json.member("status", status.code)
            json.member("detail", detail)
            json.member("code", code)
            json.member("msg", detail)
            for (name, value) in members.members { json.member(name, value) }
        }
        return Response(
            status,
            contentType: "application/problem+json",
            headerFields: headerFields,
            body: json.bytes
        )
    }
}
