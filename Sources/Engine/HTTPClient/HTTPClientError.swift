/// The reason why a request got no response.
///
/// A response is never an error here, whatever its status.
package struct HTTPClientError: Error, Sendable, CustomStringConvertible {
    /// A stable code for programs.
    package enum Code: String, Sendable, Hashable {
        /// The request is invalid: its URL, a header field that frames the message, or a body with `HEAD`.
        case invalidRequest
        /// The host name has no address.
        case cannotResolve
        /// The connection was refused, or the host is unreachable.
        case cannotConnect
        /// The proxy cannot be reached, or does not connect to the host.
        case proxy
        /// The TLS handshake failed, or the host's certificate is not trusted.
        case tls
        /// The timeout expired, before or after the request was sent.
        case timedOut
        /// The request could not start before ``HTTPClientRequest/latestStart``. No byte of it was sent.
        case expired
        /// The upload could not be read, or has another length than it declared.
        case uploadFailed
        /// The connection was lost before the response was complete.
        case connectionLost
        /// The response's head or body exceeds the size limit.
        case responseTooLarge
        /// The response is not valid HTTP/1.
        case badResponse
        /// The calling task was cancelled.
        case canceled
        /// Too many requests are waiting for a connection.
        case overloaded
        /// The client was shut down.
        case shutDown
        /// The failure has nothing to do with the host: there is no memory.
        case internalFailure
    }

    package let code: Code
    /// Whether any byte of the request's body (or of its head, if it has no body) may have left this machine.
    ///
    /// With `false`, the request is always safe to send again. It is `false` if no connection or TLS session was
    /// established in time.
    package let mayHaveBeenSent: Bool
    /// A message for people. It names at most the host, never a path, query, header field or body.
    package let message: String

    package init(code: Code, mayHaveBeenSent: Bool, message: String) {
        self.code = code
        self.mayHaveBeenSent = mayHaveBeenSent
        self.message = message
    }

    package var description: String {
        "\(code.rawValue): \(message)"
    }
}
