package import HTTPTypes

/// The reason why the bytes of a message are refused.
///
/// A server responds with ``status`` and closes the connection, because the end of the request can no longer be trusted.
/// A client reports ``reason``.
package struct ProtocolError: Error, Equatable, Sendable {
    /// The most specific status: 400, 413, 414, 417, 431, 501 or 505, and also 408 for a timeout or 503 for lack of
    /// memory.
    package let status: HTTPResponse.Status
    /// A description for the developer of the peer. It quotes nothing of the message.
    package let reason: String

    package init(_ status: HTTPResponse.Status, _ reason: String) {
        self.status = status
        self.reason = reason
    }

    /// Returns an error with the status 400.
    package static func badRequest(_ reason: String) -> ProtocolError {
        ProtocolError(.badRequest, reason)
    }
}
