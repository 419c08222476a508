internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// An error as Kakao tells it: a status and `{"msg":…,"code":…}`.
///
/// `msg` is free text that Kakao rewords and that may hold what the caller sent, push tokens among it: whoever shows it on must
/// scrub it first. The sandbox keeps that habit, so that scrubbing is tested.
struct KakaoRefusal: Error, Equatable {
    var status: Int
    /// `nil` for what comes from a gateway in front of Kakao's API: an answer without JSON.
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

    /// -2: a parameter is missing or wrong.
    static func badParameter(_ message: String) -> KakaoRefusal {
        KakaoRefusal(status: 400, code: -2, message: message)
    }

    /// -401: no Admin key, or another one.
    static func unauthorized(_ message: String) -> KakaoRefusal {
        KakaoRefusal(status: 401, code: -401, message: message)
    }

    /// Those that have a phrase to show; any other goes out without one.
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
