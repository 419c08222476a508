package import HTTPTypes

/// A request that this server refuses for what its bytes say.
///
/// It is answered with ``status`` and the connection is closed: where one request ended can no longer be trusted.
package struct ProtocolError: Error, Equatable, Sendable {
    /// The status that says it best: 400, or 413, 414, 417, 431, 501, 505 where those are the right words.
    package let status: HTTPResponse.Status
    /// What was wrong, for whoever debugs the client. Holds nothing of what the client sent.
    package let reason: String

    package init(_ status: HTTPResponse.Status, _ reason: String) {
        self.status = status
        self.reason = reason
    }

    static func badRequest(_ reason: String) -> ProtocolError {
        ProtocolError(.badRequest, reason)
    }
}
