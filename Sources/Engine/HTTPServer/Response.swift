package import HTTPTypes

/// A response. The server itself writes `Date`, `X-Request-Id`, the framing and `Connection`.
package struct Response: Sendable {
    package var status: HTTPResponse.Status
    /// The media type of the body, for `Content-Type`.
    package var contentType: String?
    /// The header fields other than `Content-Type`.
    package var headerFields: HTTPFields
    /// The body, if it is known before the first byte is sent. The response then has a `Content-Length` and is sent at
    /// once.
    package var body: [UInt8]
    /// Writes a body of any length in pieces while it is sent: chunked for HTTP/1.1, ended by closing the connection
    /// for HTTP/1.0.
    ///
    /// Runs in a task on the request's loop, which is cancelled if the client goes away. If it throws, the connection
    /// is closed before the end of the body, so that no client mistakes a part for the whole. Not called for HEAD.
    package let pieces: (@Sendable (ResponseBodyWriter) async throws -> Void)?
    /// The kind of the ``Problem`` that the response shows.
    var problem: String?
    /// The reason and the field of that problem: see ``Problem/reason`` and ``Problem/field``.
    var reason: String?
    var field: String?

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

    /// Creates a response with a body that is written while it is sent.
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

    /// Returns a response whose body is JSON text.
    package static func json(
        _ body: [UInt8],
        status: HTTPResponse.Status = .ok,
        headerFields: HTTPFields = HTTPFields()
    ) -> Response {
        Response(status, contentType: "application/json;charset=UTF-8", headerFields: headerFields, body: body)
    }

    /// Returns a response whose body is JSON text written in pieces.
    package static func json(writing pieces: @escaping @Sendable (ResponseBodyWriter) async throws -> Void) -> Response
    {
        Response(.ok, contentType: "application/json;charset=UTF-8", writing: pieces)
    }

    /// Returns a response with a short plain text for people.
    package static func text(_ text: String, status: HTTPResponse.Status = .ok) -> Response {
        Response(status, contentType: "text/plain;charset=UTF-8", body: Array(text.utf8))
    }
}

/// An error that makes the server close the connection without a response. Thrown by a handler or middleware.
///
/// The sandbox uses it to simulate faults; a production server has no use for it.
package struct ConnectionAbort: Error {
    package init() {}
}
