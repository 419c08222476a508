package import HTTPTypes

/// The reason why a request's bytes are refused.
///
/// The server responds with ``status`` and closes the connection, because the end of the request can no longer be
/// trusted.
package struct ProtocolError: Error, Equatable, Sendable {
    /// The most specific status: 400, 413, 414, 417, 431, 501 or 505, and also 408 for a timeout or 503 for lack of
    /// memory.
    package let status: HTTPResponse.Status
    /// A description for the client's developer. It quotes nothing that the client sent.
    package let reason: String

    package init(_ status: HTTPResponse.Status, _ reason: String) {
        self.status = status
        self.reason = reason
    }

    static func badRequest(_ reason: String) -> ProtocolError {
        ProtocolError(.badRequest, reason)
    }
}
