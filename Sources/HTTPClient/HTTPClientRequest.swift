package import HTTPTypes

/// A request, whole: the body is in memory.
package struct HTTPClientRequest: Sendable {
    package var method: HTTPRequest.Method
    /// An absolute URL of scheme `http` or `https`, percent-encoded, without a user's name.
    package var url: String
    /// The fields of the head. Those that frame the message (`Content-Length`, `Transfer-Encoding`, `Expect`) are the
    /// client's own, and are refused here.
    package var headerFields: HTTPFields
    package var body: [UInt8]
    /// The time in which this request must be answered, instead of ``HTTPClientSettings/totalTimeout``.
    package var totalTimeout: Duration?

    package init(
        method: HTTPRequest.Method = .get,
        url: String,
        headerFields: HTTPFields = [:],
        body: [UInt8] = [],
        totalTimeout: Duration? = nil
    ) {
        self.method = method
        self.url = url
        self.headerFields = headerFields
        self.body = body
        self.totalTimeout = totalTimeout
    }
}

/// A response, whole.
package struct HTTPClientResponse: Sendable {
    /// The status code, 200 to 999. A redirect is a response like any other: it is not followed.
    package var status: Int
    /// The fields of the head; what follows a chunked body is left out.
    package var headerFields: HTTPFields
    /// The body as it was sent: chunks are put together, compression is left as it is.
    package var body: [UInt8]

    package init(status: Int, headerFields: HTTPFields = [:], body: [UInt8] = []) {
        self.status = status
        self.headerFields = headerFields
        self.body = body
    }
}
