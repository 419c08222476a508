/// A request that got no response.
///
/// A response of any status is no error here.
package struct HTTPClientError: Error, Sendable, CustomStringConvertible {
    /// What went wrong, stable for programs.
    package enum Code: String, Sendable, Hashable {
        /// The request cannot be sent as it is: its URL, a header field that frames the message, a body with `HEAD`.
        case invalidRequest
        /// The settings cannot be used: the file of certificates cannot be read.
        case invalidSettings
        /// The host's name has no address.
        case cannotResolve
        /// No connection was made: refused, or unreachable.
        case cannotConnect
        /// The TLS handshake failed, or the host could not prove who it is.
        case tls
        /// Not done in time; before or after the request had left.
        case timedOut
        /// It could not begin to leave before ``HTTPClientRequest/latestStart``: no byte of it has left.
        case expired
        /// The connection broke before the response was whole.
        case connectionLost
        /// The response's head or body is longer than is allowed.
        case responseTooLarge
        /// What came back is not HTTP/1.
        case badResponse
        /// The calling task was cancelled.
        case canceled
        /// Too many requests wait for a connection already.
        case overloaded
        /// The client was shut down.
        case shutDown
        /// libcurl failed in a way that says nothing of the peer: it is out of memory.
        case internalFailure
    }

    package let code: Code
    /// Whether any byte of the request's body may have left this machine; of its head, when it has no body.
    ///
    /// Never `false` when a byte may have left: a request of which this is `false` is always safe to send again. It is
    /// `false` when no connection came to stand, or no TLS, or not in time, and when a kept connection turned out to be
    /// dead.
    package let bodyBytesLeft: Bool
    /// What happened, for people. Names the host at most: never a path, a query, a header field or a body.
    package let message: String

    package init(code: Code, bodyBytesLeft: Bool, message: String) {
        self.code = code
        self.bodyBytesLeft = bodyBytesLeft
        self.message = message
    }

    package var description: String {
        "\(code.rawValue): \(message)"
    }
}
