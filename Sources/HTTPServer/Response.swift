package import HTTPTypes

/// What is answered to a request. `Date`, `Content-Length` and `Connection` are the server's to write.
package struct Response: Sendable {
    package var status: HTTPResponse.Status
    package var headerFields: HTTPFields
    package var body: [UInt8]

    package init(_ status: HTTPResponse.Status, headerFields: HTTPFields = HTTPFields(), body: [UInt8] = []) {
        self.status = status
        self.headerFields = headerFields
        self.body = body
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
