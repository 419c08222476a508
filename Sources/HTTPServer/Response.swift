package import HTTPTypes

/// What is answered to a request. `Date`, `X-Request-Id`, the framing and `Connection` are the server's to write.
package struct Response: Sendable {
    /// What follows the header section.
    package enum Body: Sendable {
        /// Known before the first byte is sent: the response has a `Content-Length` and leaves at once.
        case bytes([UInt8])
        /// Written in pieces while it is sent, of any length: chunked to HTTP/1.1, ended by closing to HTTP/1.0.
        ///
        /// Runs in a task on the request's loop, which is cancelled when the client goes away. If it throws, the connection is cut
        /// off without the end of the body, so that no client takes a part for the whole. Not run for HEAD.
        case pieces(@Sendable (ResponseBodyWriter) async throws -> Void)
    }

    package var status: HTTPResponse.Status
    package var headerFields: HTTPFields
    package var body: Body

    package init(_ status: HTTPResponse.Status, headerFields: HTTPFields = HTTPFields(), body: [UInt8] = []) {
        self.status = status
        self.headerFields = headerFields
        self.body = .bytes(body)
    }

    /// A response whose body is written while it is sent.
    package init(
        _ status: HTTPResponse.Status,
        headerFields: HTTPFields = HTTPFields(),
        writing body: @escaping @Sendable (ResponseBodyWriter) async throws -> Void
    ) {
        self.status = status
        self.headerFields = headerFields
        self.body = .pieces(body)
    }

    /// A body that is JSON text already.
    package static func json(_ body: [UInt8], status: HTTPResponse.Status = .ok) -> Response {
        Response(status, headerFields: jsonFields, body: body)
    }

    /// A short text for people.
    package static func text(_ text: String, status: HTTPResponse.Status = .ok) -> Response {
        Response(status, headerFields: textFields, body: Array(text.utf8))
    }

    // Made once: a header field's name and value cost allocations.
    private static let jsonFields: HTTPFields = [.contentType: "application/json;charset=UTF-8"]
    private static let textFields: HTTPFields = [.contentType: "text/plain;charset=UTF-8"]
}

/// Thrown by a handler or middleware to close the connection without an answer.
///
/// For the faults that the sandbox plays; a server that serves people has no use for it.
package struct ConnectionAbort: Error {
    package init() {}
}
