internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// An error response of Kakao: a status and `{"msg":…,"code":…}`.
///
/// `msg` is free text that Kakao may reword. It may contain parts of the request, such as push tokens, so a caller must
/// scrub it before showing it. The sandbox does the same, so that scrubbing is tested.
struct KakaoRefusal: Error, Equatable {
    var status: Int
    /// Kakao's error code; `nil` for a response without JSON, as from a gateway in front of Kakao's API.
    var code: Int?
    var message: String
    /// `Retry-After`, in seconds.
    var retryAfterSeconds: Int?

    init(status: Int, code: Int?, message: String, retryAfterSeconds: Int? = nil) {
        self.status = status
        self.code = code
        self.message = message
        self.retryAfterSeconds = retryAfterSeconds
    }

    /// Returns error -2: a parameter is missing or invalid.
    static func badParameter(_ message: String) -> KakaoRefusal {
        KakaoRefusal(status: 400, code: -2, message: message)
    }

    /// Returns error -401: the credentials are missing or invalid.
    static func unauthorized(_ message: String) -> KakaoRefusal {
        KakaoRefusal(status: 401, code: -401, message: message)
    }

    /// The statuses with a reason phrase. Other statuses are sent without one.
    private static let known: [HTTPResponse.Status] = [
        .ok, .badRequest, .unauthorized, .forbidden, .notFound, .tooManyRequests, .internalServerError, .badGateway,
        .serviceUnavailable, .gatewayTimeout,
    ]

    var response: Response {
        var response = body
        if status == 401 { response.headerFields[.wwwAuthenticate] = "KakaoAK error=invalid_token" }
        if let retryAfterSeconds { response.headerFields[.retryAfter] = String(retryAfterSeconds) }
        return response
    }

    private var body: Response {
        let status = Self.known.first { $0.code == self.status } ?? HTTPResponse.Status(code: self.status)
        guard let code else {
            let page = "<html><body><h1>\(status)</h1></body></html>\n"
            return Response(status, contentType: "text/html", body: Array(page.utf8))
        }
        var json = JSONWriter()
        json.object {
            $0.member("msg", message)
            $0.member("code", code)
        }
        return .json(json.bytes, status: status)
    }
}
