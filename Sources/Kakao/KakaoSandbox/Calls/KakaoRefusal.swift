import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI

/// An error response of Kakao: a status and `{"msg":…,"code":…}`, or of its authorization server: a status and
/// `{"error":…,"error_description":…,"error_code":…}`.
///
/// The text is free text that Kakao may reword. It may contain parts of the request, such as push tokens, so a caller must
/// scrub it before showing it. The sandbox does the same, so that scrubbing is tested.
struct KakaoRefusal: Error, Equatable {
    var status: Int
    /// Kakao's error code. Without it and without ``oauthError``, the response has no JSON, as from a gateway in front of
    /// Kakao's API.
    var code: Int?
    /// The error of the authorization server.
    var oauthError: OAuthError?
    var message: String
    /// `Retry-After`, in seconds.
    var retryAfterSeconds: Int?
    /// The length of a body that is no JSON; `nil` for a short page.
    var bodyBytes: Int?
    /// The scopes of error -402.
    var missingScopes: MissingScopes?

    /// The scopes that a call lacks.
    struct MissingScopes: Equatable {
        /// Kakao's name of the call's API; `nil` if no source knows it.
        let api: String?
        let required: [String]
        let allowed: [String]
    }

    init(
        status: Int,
        code: Int?,
        oauthError: OAuthError? = nil,
        message: String,
        retryAfterSeconds: Int? = nil,
        bodyBytes: Int? = nil
    ) {
        self.status = status
        self.code = code
        self.oauthError = oauthError
        self.message = message
        self.retryAfterSeconds = retryAfterSeconds
        self.bodyBytes = bodyBytes
    }

    /// Returns error -2: a parameter is missing or invalid.
    static func badParameter(_ message: String) -> KakaoRefusal {
        KakaoRefusal(status: 400, code: -2, message: message)
    }

    /// Returns error -401: the credentials are missing or invalid.
    static func unauthorized(_ message: String) -> KakaoRefusal {
        KakaoRefusal(status: 401, code: -401, message: message)
    }

    /// Error -101: the user is not linked to the app.
    static let notLinked = KakaoRefusal(status: 400, code: -101, message: "NotRegisteredUserException")

    /// Returns error -402: the user has not agreed to the scopes of a call.
    static func missingScopes(_ scopes: [String], api: String? = nil, allowed: [String]) -> KakaoRefusal {
        var refusal = KakaoRefusal(status: 403, code: -402, message: "insufficient scopes.")
        refusal.missingScopes = MissingScopes(api: api, required: scopes, allowed: allowed)
        return refusal
    }

    /// Error -606: there are too many images.
    static let tooManyImages = KakaoRefusal(status: 400, code: -606, message: "too many images are uploaded.")

    /// Returns an error of the authorization server.
    static func oauth(status: Int = 400, _ error: String, _ code: String, _ description: String) -> KakaoRefusal {
        KakaoRefusal(
            status: status,
            code: nil,
            oauthError: OAuthError(error: error, code: code),
            message: description
        )
    }

    /// The statuses with a reason phrase. Other statuses are sent without one.
    private static let known: [HTTPResponse.Status] = [
        .ok, .badRequest, .unauthorized, .forbidden, .notFound, .tooManyRequests, .internalServerError, .badGateway,
        .serviceUnavailable, .gatewayTimeout,
    ]

    var response: Response {
        var response = body
        if status == 401, oauthError == nil { response.headerFields[.wwwAuthenticate] = "KakaoAK error=invalid_token" }
        // A client that follows it arrives where it came from.
        if (300..<400).contains(status) { response.headerFields[.location] = "?redirected=true" }
        if let retryAfterSeconds { response.headerFields[.retryAfter] = String(retryAfterSeconds) }
        return response
    }

    private var body: Response {
        let status = Self.known.first { $0.code == self.status } ?? HTTPResponse.Status(code: self.status)
        if let oauthError {
            var json = JSONWriter()
            json.object {
                if !oauthError.error.isEmpty { $0.member("error", oauthError.error) }
                $0.member("error_description", message)
                if let code = oauthError.code { $0.member("error_code", code) }
            }
            return .json(json.bytes, status: status)
        }
        guard let code else {
            if let bodyBytes {
                return Response(
                    status,
                    contentType: "text/plain",
                    body: Array(repeating: UInt8(ascii: "x"), count: bodyBytes)
                )
            }
            let page = "<html><body><h1>\(status)</h1></body></html>\n"
            return Response(status, contentType: "text/html", body: Array(page.utf8))
        }
        var json = JSONWriter()
        json.object {
            $0.member("msg", message)
            $0.member("code", code)
            if let missingScopes {
                if let api = missingScopes.api { $0.member("api_type", api) }
                $0.member("required_scopes", missingScopes.required)
                $0.member("allowed_scopes", missingScopes.allowed)
            }
        }
        return .json(json.bytes, status: status)
    }
}
