package import HTTPTypes

/// What is answered to a request. `Date`, `X-Request-Id`, the framing and `Connection` are the server's to write.
package struct Response: Sendable {
    package var status: HTTPResponse.Status
    /// The media type of the body, for `Content-Type`.
    package var contentType: String?
    /// Fields beside that one.
    package var headerFields: HTTPFields
    /// The body, if it is known before the first byte is sent: the response has a `Content-Length` and leaves at once.
    package var body: [UInt8]
    /// Writes the body in pieces while it is sent, of any length: chunked to HTTP/1.1, ended by closing to HTTP/1.0.
    ///
    /// Runs in a task on the request's loop, which is cancelled when the client goes away. If it throws, the connection is cut
    /// off without the end of the body, so that no client takes a part for the whole. Not run for HEAD.
    package let pieces: (@Sendable (ResponseBodyWriter) async throws -> Void)?

    package init(
        _ status: HTTPResponse.Status,
        contentType: String? = nil,
        headerFields: HTTPFields = HTTPFields(),
        body: [UInt8] = []
    ) {
        self.status = status
        self.contentType = contentType
        self.headerFields = headerFields
        self.body = body
        pieces = nil
    }

    /// A response whose body is written while it is sent.
    package init(
        _ status: HTTPResponse.Status,
        contentType: String? = nil,
        headerFields: HTTPFields = HTTPFields(),
        writing pieces: @escaping @Sendable (ResponseBodyWriter) async throws -> Void
    ) {
        self.status = status
        self.contentType = contentType
        self.headerFields = headerFields
        body = []
        self.pieces = pieces
    }

    /// A body that is JSON text already.
    package static func json(_ body: [UInt8], status: HTTPResponse.Status = .ok) -> Response {
        Response(status, contentType: "application/json;charset=UTF-8", body: body)
    }

    /// A JSON text that is written in pieces.
    package static func json(writing pieces: @escaping @Sendable (ResponseBodyWriter) async throws -> Void) -> Response
    {
        Response(.ok, contentType: "application/json;charset=UTF-8", writing: pieces)
    }

    /// A short text for people.
    package static func text(_ text: String, status: HTTPResponse.Status = .ok) -> Response {
        Response(status, contentType: "text/plain;charset=UTF-8", body: Array(text.utf8))
    }
}

/// Thrown by a handler or middleware to close the connection without an answer.
///
/// For the faults that the sandbox plays; a server that serves people has no use for it.
package struct ConnectionAbort: Error {
    package init() {}
}
