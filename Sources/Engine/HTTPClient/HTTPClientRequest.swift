package import HTTPTypes

/// A request. Its body is in memory, apart from what ``upload`` supplies.
package struct HTTPClientRequest: Sendable {
    package var method: HTTPRequest.Method
    /// An absolute URL with scheme `http` or `https`, percent-encoded, without user information.
    package var url: String
    /// The header fields. Those that frame the message (`Content-Length`, `Transfer-Encoding`, `Expect`) are set by the
    /// client and rejected here.
    package var headerFields: HTTPFields
    package var body: [UInt8]
    /// The part of the body that follows ``body``, which is sent while it is read.
    package var upload: HTTPClientUpload?
    /// Whether sending the request twice has the effect of sending it once (RFC 9110 §9.2.2), whatever its method. Such
    /// a request is sent again if it is lost with a kept-alive connection.
    package var isIdempotent: Bool
    /// The time limit for the whole response, in place of ``HTTPClientSettings/totalTimeout``.
    package var totalTimeout: Duration?
    /// The latest time to start sending, in milliseconds of the loop's clock (``EventLoop/milliseconds()``). `nil`
    /// means no limit. A request that still waits for a connection then fails with ``HTTPClientError/Code/expired``.
    package var latestStart: UInt64?
    /// The requests with which this one shares the limit of connections.
    package var connections: ConnectionGroup
    /// Whether the request goes to its host directly, even if the client has a proxy.
    package var avoidsProxy: Bool

    package init(
        method: HTTPRequest.Method = .get,
        url: String,
        headerFields: HTTPFields = [:],
        body: [UInt8] = [],
        upload: HTTPClientUpload? = nil,
        isIdempotent: Bool = false,
        totalTimeout: Duration? = nil,
        latestStart: UInt64? = nil,
        connections: ConnectionGroup = .shared,
        avoidsProxy: Bool = false
    ) {
        self.method = method
        self.url = url
        self.headerFields = headerFields
        self.body = body
        self.upload = upload
        self.isIdempotent = isIdempotent
        self.totalTimeout = totalTimeout
        self.latestStart = latestStart
        self.connections = connections
        self.avoidsProxy = avoidsProxy
    }
}
