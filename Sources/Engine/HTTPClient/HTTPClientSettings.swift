package import Net

/// The settings of an ``HTTPClient``: timeouts, limits, trusted certificates and the way to the hosts.
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
    /// The certificates to trust. With `nil`, neither a host's certificate nor its name is verified: only for a server on
    /// this machine that receives no secrets and whose certificate has another name.
    package var trust: TrustStore?
    /// The proxy through which every connection is made, except for requests that avoid it. `nil` connects to the hosts
    /// themselves.
    package var proxy: HTTPProxy?
    /// The resolver of host names.
    package var resolver = NameResolver.system
    /// The value of `User-Agent`, unless the request sets its own.
    package var userAgent: String

    package init(
        connectTimeout: Duration = .seconds(3),
        totalTimeout: Duration = .seconds(10),
        maximumConnections: Int = 32,
        connectionLimits: [ConnectionGroup: Int] = [:],
        maximumWaitingRequests: Int = 10_000,
        maximumResponseBytes: Int = 1024 * 1024,
        trust: TrustStore? = .system,
        proxy: HTTPProxy? = nil,
        userAgent: String = "kakao-push-server"
    ) {
        self.connectTimeout = connectTimeout
        self.totalTimeout = totalTimeout
        self.maximumConnections = maximumConnections
        self.connectionLimits = connectionLimits
        self.maximumWaitingRequests = maximumWaitingRequests
        self.maximumResponseBytes = maximumResponseBytes
        self.trust = trust
        self.proxy = proxy
        self.userAgent = userAgent
    }
}
