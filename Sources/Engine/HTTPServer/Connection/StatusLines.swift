import HTTPTypes

/// The status lines of responses (RFC 9112 §4), made once: `HTTP/1.1 200 OK`.
///
/// The reason phrase follows from the number, because statuses that come from elsewhere, such as Kakao's, are numbers only, and some
/// proxies and clients expect a phrase.
struct StatusLines {
    private static let statuses = 100...999
    private static let all = statuses.map { status in
        Array("HTTP/1.1 \(status) \(HTTPResponse.Status(code: status).phrase)\r\n".utf8)
    }

    // A copy of the static value, which is initialized on first use and so costs a check at each use.
    private let lines = Self.all

    /// The line of a status, with its end. A number that HTTP does not allow has the line of the nearest one.
    subscript(status: HTTPResponse.Status) -> [UInt8] {
        lines[min(max(status.code, Self.statuses.lowerBound), Self.statuses.upperBound) - Self.statuses.lowerBound]
    }
}

extension HTTPResponse.Status {
    /// The registered statuses with their reason phrases (RFC 9110 §15, RFC 4918 §11.5).
    private static let registered: [HTTPResponse.Status] = [
        .continue, .switchingProtocols, .earlyHints, .ok, .created, .accepted, .nonAuthoritativeInformation, .noContent,
        .resetContent, .partialContent, .multipleChoices, .movedPermanently, .found, .seeOther, .notModified,
        .temporaryRedirect, .permanentRedirect, .badRequest, .unauthorized, .forbidden, .notFound, .methodNotAllowed,
        .notAcceptable, .proxyAuthenticationRequired, .requestTimeout, .conflict, .gone, .lengthRequired,
        .preconditionFailed, .contentTooLarge, .uriTooLong, .unsupportedMediaType, .rangeNotSatisfiable,
        .expectationFailed, .misdirectedRequest, .unprocessableContent, .tooEarly, .upgradeRequired,
        .preconditionRequired, .tooManyRequests, .requestHeaderFieldsTooLarge, .unavailableForLegalReasons,
        .internalServerError, .notImplemented, .badGateway, .serviceUnavailable, .gatewayTimeout,
        .httpVersionNotSupported, HTTPResponse.Status(code: 507, reasonPhrase: "Insufficient Storage"),
        .networkAuthenticationRequired,
    ]

    private static let phrases = Dictionary(uniqueKeysWithValues: registered.map { ($0.code, $0.reasonPhrase) })

    /// The registered reason phrase of the number. A number that is not registered has that of its class (RFC 9110 §15).
    var phrase: String {
        if let phrase = Self.phrases[code] { return phrase }
        return switch kind {
        case .informational: "Informational"
        case .successful: "Successful"
        case .redirection: "Redirection"
        case .clientError: "Client Error"
        case .serverError: "Server Error"
        case .invalid: "Unknown"
        }
    }
}
