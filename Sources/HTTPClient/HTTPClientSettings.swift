/// How an ``HTTPClient`` calls: its time-outs, its bounds, and whom it trusts.
package struct HTTPClientSettings: Sendable {
    /// The time in which a connection must stand, from the name's look-up to the end of the TLS handshake.
    package var connectTimeout: Duration
    /// The time in which a request must be answered in full, from the call on: waiting for a connection is part of it.
    package var totalTimeout: Duration
    /// Connections to one host at a time; requests beyond that wait in turn. At least 1.
    package var maximumConnections: Int
    /// Requests that may wait for a connection; one more fails at once with ``HTTPClientError/Code/overloaded``.
    package var maximumWaitingRequests: Int
    /// The longest body of a response, in bytes; one more fails with ``HTTPClientError/Code/responseTooLarge``.
    package var maximumResponseBytes: Int
    /// A file of certificates in PEM form that are trusted instead of the system's; `nil` for the system's.
    package var caCertificateFile: String?
    /// Whether a server's certificate and its name are verified. Not for a server on this machine that is sent nothing secret, and whose
    /// certificate is for another name.
    package var verifiesServer = true
    /// What `User-Agent` says, unless a request says otherwise.
    package var userAgent: String

    package init(
        connectTimeout: Duration = .seconds(3),
        totalTimeout: Duration = .seconds(10),
        maximumConnections: Int = 32,
        maximumWaitingRequests: Int = 10_000,
        maximumResponseBytes: Int = 1024 * 1024,
        caCertificateFile: String? = nil,
        userAgent: String = "kakao-push-server"
    ) {
        self.connectTimeout = connectTimeout
        self.totalTimeout = totalTimeout
        self.maximumConnections = maximumConnections
        self.maximumWaitingRequests = maximumWaitingRequests
        self.maximumResponseBytes = maximumResponseBytes
        self.caCertificateFile = caCertificateFile
        self.userAgent = userAgent
    }
}
