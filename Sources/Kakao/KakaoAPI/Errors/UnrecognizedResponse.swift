import HTTPClient
import HTTPTypes

/// A response that does not have Kakao's form: an error without Kakao's code, or a success without the documented body.
///
/// Something else may have answered in Kakao's place: a proxy, a firewall, a log-in page of a network, a load balancer. It
/// says nothing about the token, the user or the message of the request. An empty response with status 200 or 204 to a
/// call whose success has no body cannot be told apart from Kakao's.
package struct UnrecognizedResponse: Sendable, Hashable {
    package let status: Int
    /// The media type without its parameters; `nil` if there is none.
    package let contentType: String?
    /// The header field `Server`, and the header field `Via`, which proxies add; `nil` if there is none.
    package let server, via: String?
    /// The title of an HTML page, or the first 200 characters of any other text; empty if there is none, or if it may quote personal data.
    package let text: String

    /// - Parameter text: It contains no secrets.
    package init(status: Int, contentType: String? = nil, server: String? = nil, via: String? = nil, text: String = "")
    {
        self.status = status
        self.contentType = contentType
        self.server = server
        self.via = via
        self.text = text
    }

    /// - Parameters:
    ///   - secrets: The secrets of the request, which the response may repeat.
    ///   - hidesJSON: See ``ErrorMessage``. No text is kept then.
    init(_ response: HTTPClientResponse, secrets: [String], hidesJSON: Bool) {
        let fields = response.headerFields
        func field(_ name: HTTPField.Name) -> String? {
            fields[name].map { ErrorMessage.scrubbed($0, of: secrets, maximumCharacters: 100) }
        }
        let contentType = field(.contentType)?.prefix { $0 != ";" }.lowercased()
        self.init(
            status: response.status,
            contentType: contentType,
            server: field(.server),
            via: field(.via),
            text: hidesJSON ? "" : Self.text(of: response.body, secrets: secrets)
        )
    }

    /// The maximum number of bytes that are searched for a title.
    private static let maximumExaminedBytes = 16 * 1024

    /// Returns the title of a page, or the beginning of its text without tags; nothing of a body that is not UTF-8.
    private static func text(of body: [UInt8], secrets: [String]) -> String {
        let page = String(decoding: body.prefix(maximumExaminedBytes), as: UTF8.self)
        // Binary data tells a reader nothing.
        guard !page.prefix(200).contains("\u{FFFD}") else { return "" }
        let title = page.firstMatch(of: /(?i)<title[^>]*>([^<]*)/)?.1 ?? ""
        let words = (title.isEmpty ? Substring(page.replacing(/<[^>]*>/, with: " ")) : title)
        let text = words.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        return ErrorMessage.scrubbed(text, of: secrets)
    }

    /// Whether the status says that the next request may succeed: a 5xx, or 429.
    package var isTemporary: Bool { status == 429 || status >= 500 }

    /// Whether the request may have been carried out. A proxy that answers 502 or 504 has passed it on, or tried to (RFC 9110
    /// §15.6.3, §15.6.5), and a 2xx may replace the body of Kakao's success. A redirect, a 4xx or another known 5xx says that
    /// the responder itself has not.
    package var mayFollowExecution: Bool {
        switch status {
        case 300..<500, 500, 501, 503, 505...511: false
        default: true
        }
    }
}

extension UnrecognizedResponse: CustomStringConvertible {
    /// The response in a line for operators: `status 403, text/html, Server: squid, “Access denied”`.
    package var description: String {
        var parts = ["status \(status)"]
        if let contentType { parts.append(contentType) }
        if let server { parts.append("Server: \(server)") }
        if let via { parts.append("Via: \(via)") }
        if !text.isEmpty { parts.append("“\(text)”") }
        if status == 407 { parts.append("a proxy asks for credentials: check kakao.proxy_url") }
        return parts.joined(separator: ", ")
    }
}
