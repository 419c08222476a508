/// The settings of an ``HTTPClient``: timeouts, limits and trusted certificates.
package struct HTTPClientSettings: Sendable {
    /// The time limit for establishing a connection, from the name lookup to the end of the TLS handshake.
    package var connectTimeout: Duration
    /// The time limit for the whole response, counted from the call. It includes waiting for a connection.
    package var totalTimeout: Duration
    /// The maximum number of connections of a ``ConnectionGroup`` to one origin, unless ``connectionLimits`` names
    /// another. Further requests wait in order. At least 1.
    package var maximumConnections: Int
    /// The maximum numbers of connections of groups with limits of their own.
    package var connectionLimits: [ConnectionGroup: Int]
    /// The maximum number of requests of a group that wait for a connection to one origin. One more fails at once with
    /// ``HTTPClientError/Code/overloaded``.
    package var maximumWaitingRequests: Int
    /// The maximum length of a response body, in bytes. A longer one fails with
    /// ``HTTPClientError/Code/responseTooLarge``, unless ``truncatesResponses`` is set.
    package var maximumResponseBytes: Int
    /// Whether a longer response body is cut off at its maximum length. The connection is closed then.
    package var truncatesResponses = false
    /// A PEM file of certificates to trust instead of the system's. `nil` trusts the system's.
    package var caCertificateFile: String?
    /// Whether the server's certificate and name are verified. Only disable this for a server on this machine that
    /// receives no secrets and whose certificate has another name.
    package var verifiesServer = true
    /// The value of `User-Agent`, unless the request sets its own.
    package var userAgent: String

    package init(
        connectTimeout: Duration = .seconds(3),
        totalTimeout: Duration = .seconds(10),
        maximumConnections: Int = 32,
        connectionLimits: [ConnectionGroup: Int] = [:],
        maximumWaitingRequests: Int = 10_000,
        maximumResponseBytes: Int = 1024 * 1024,
        caCertificateFile: String? = nil,
        userAgent: String = "kakao-push-server"
    ) {
        self.connectTimeout = connectTimeout
        self.totalTimeout = totalTimeout
        self.maximumConnections = maximumConnections
        self.connectionLimits = connectionLimits
        self.maximumWaitingRequests = maximumWaitingRequests
        self.maximumResponseBytes = maximumResponseBytes
        self.caCertificateFile = caCertificateFile
        self.userAgent = userAgent
    }
}
