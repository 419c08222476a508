package import HTTPTypes

/// A request, whole: the body is in memory.
package struct HTTPClientRequest: Sendable {
    package var method: HTTPRequest.Method
    /// An absolute URL of scheme `http` or `https`, percent-encoded, without a user's name.
    package var url: String
    /// The fields of the head. Those that frame the message (`Content-Length`, `Transfer-Encoding`, `Expect`) are the
    /// client's own, and are refused here.
    package var headerFields: HTTPFields
    package var body: [UInt8]
    /// To make the request twice comes to the same as to make it once (RFC 9110 §9.2.2), whatever the method says. It is sent again when
    /// a kept connection dies under it, and its head and body leave together.
    package var isIdempotent: Bool
    /// The time in which this request must be answered, instead of ``HTTPClientSettings/totalTimeout``.
    package var totalTimeout: Duration?
    /// When the request must have begun to leave, in milliseconds of the loop's clock (``EventLoop/milliseconds()``); `nil` for no bound. A
    /// request that waits for a connection until then fails with ``HTTPClientError/Code/expired``.
    package var latestStart: UInt64?

    package init(
        method: HTTPRequest.Method = .get,
        url: String,
        headerFields: HTTPFields = [:],
        body: [UInt8] = [],
        isIdempotent: Bool = false,
        totalTimeout: Duration? = nil,
        latestStart: UInt64? = nil
    ) {
        self.method = method
        self.url = url
        self.headerFields = headerFields
        self.body = body
        self.isIdempotent = isIdempotent
        self.totalTimeout = totalTimeout
        self.latestStart = latestStart
    }
}
