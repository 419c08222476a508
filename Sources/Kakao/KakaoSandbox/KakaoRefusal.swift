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
    /// The response of something else in Kakao's place.
    var page: ForeignPage?
    /// The scopes of error -402.
    var missingScopes: MissingScopes?

    /// The scopes that a call lacks.
    struct MissingScopes: Equatable {
        /// Kakao's name of the call's API; `nil` if no source knows it.
        let api: String?
        let required: [String]
        let allowed: [String]
    }

    /// Returns an error with Kakao's code.
    static func error(_ code: KakaoErrorCode, status: Int = 400, _ message: String) -> KakaoRefusal {
        KakaoRefusal(status: status, code: code.rawValue, message: message)
    }

    /// Returns error -2: a parameter is missing or invalid.
    static func badParameter(_ message: String) -> KakaoRefusal {
        .error(.invalidParameter, message)
    }

    /// Returns error -401: the credentials are missing or invalid.
    static func unauthorized(_ message: String) -> KakaoRefusal {
        .error(.invalidCredential, status: 401, message)
    }

    /// Returns error -1 for what the sandbox does not store.
    static func full(_ message: String) -> KakaoRefusal {
        .error(.internalError, message)
    }

    /// Returns error -10: a quota of the app is used up.
    static func quotaExceeded(status: Int = 400) -> KakaoRefusal {
        .error(.quotaExceeded, status: status, "API limit has been exceeded.")
    }

    /// Error -101: the user is not linked to the app.
    static let notLinked = error(.userNotLinked, "NotRegisteredUserException")

    /// Returns error -402: the user has not agreed to the scopes of a call.
    static func missingScopes(_ scopes: [String], api: String? = nil, allowed: [String]) -> KakaoRefusal {
        var refusal = error(.missingScope, status: 403, "insufficient scopes.")
        refusal.missingScopes = MissingScopes(api: api, required: scopes, allowed: allowed)
        return refusal
    }

    /// Error -606: there are too many images.
    static let tooManyImages = error(.tooManyImages, "too many images are uploaded.")

    /// Returns an error of the authorization server.
    static func oauth(status: Int = 400, _ error: String, _ code: String, _ description: String) -> KakaoRefusal {
        KakaoRefusal(
            status: status,
            code: nil,
            oauthError: OAuthError(error: error, code: code),
            message: description
        )
    }

    /// The statuses whose reason phrase a gateway's page shows.
    private static let known: [HTTPResponse.Status] = [
        .ok, .badRequest, .unauthorized, .forbidden, .notFound, .tooManyRequests, .internalServerError, .badGateway,
        .serviceUnavailable, .gatewayTimeout,
    ]

    /// - Parameter authorization: The credential of the request, whose scheme a 401 names.
    func response(to authorization: String?) -> Response {
        var response = body
        if status == 401, oauthError == nil, page == nil {
            let isBearer = authorization?.lowercased().hasPrefix("bearer ") == true
            response.headerFields[.wwwAuthenticate] = "\(isBearer ? "Bearer" : "KakaoAK") error=invalid_token"
        }
        // A client that follows it arrives where it came from.
        if (300..<400).contains(status) { response.headerFields[.location] = "?redirected=true" }
        if let retryAfterSeconds { response.headerFields[.retryAfter] = String(retryAfterSeconds) }
        return response
    }

    private var body: Response {
        let status = Self.known.first { $0.code == self.status } ?? HTTPResponse.Status(code: self.status)
        if let page {
            var response = Response(status, contentType: page.contentType, body: Array(page.body.utf8))
            response.headerFields[.server] = page.server
            response.headerFields[.via] = page.via
            return response
        }
        if let oauthError {
            return .json(status: status) {
                if !oauthError.error.isEmpty { $0.member("error", oauthError.error) }
                $0.member("error_description", message)
                if let code = oauthError.code { $0.member("error_code", code) }
            }
        }
        guard let code else {
            if let bodyBytes {
                let body = Array(repeating: UInt8(ascii: "x"), count: bodyBytes)
                return Response(status, contentType: "text/plain", body: body)
            }
            let page = "<html><body><h1>\(status)</h1></body></html>\n"
            return Response(status, contentType: "text/html", body: Array(page.utf8))
        }
        return .json(status: status) {
            $0.member("msg", message)
            $0.member("code", code)
            if let missingScopes {
                if let api = missingScopes.api { $0.member("api_type", api) }
                $0.member("required_scopes", missingScopes.required)
                $0.member("allowed_scopes", missingScopes.allowed)
            }
        }
    }
}
