package import EventLoop
package import HTTPTypes
package import Net

/// A request as its handler sees it: the head, the whole body, and the path parameters.
///
/// A class, so that passing it on costs one reference count and not one per property.
package final class Request: @unchecked Sendable {
    // `body`, `pathParameters` and `route` are written by the request's connection; `principal` and `exemptsConnection` by
    // the route's check. All writes happen on the request's loop, before the handler is called.
    // Everything else is immutable.

    /// The loop that received the request and runs its handler.
    package let loop: EventLoop
    /// The request line and the header fields.
    package let head: RequestHead
    /// The target's path as sent: see ``RequestHead/path``.
    package let path: String
    /// The peer of the connection.
    package let remoteAddress: SocketAddress
    /// The client's address: the peer's, or the one that a trusted proxy reports (``ForwardedField``).
    package let clientAddress: SocketAddress
    /// The trusted proxies, if the peer is one of them; else `nil`.
    private let proxies: TrustedProxies?
    /// Whether the connection is encrypted.
    package let isSecure: Bool
    /// The whole body, without its framing. Empty until the handler is called.
    package internal(set) var body: [UInt8] = []
    /// The decoded values of the named segments in the route's pattern.
    package internal(set) var pathParameters: [(name: String, value: String)] = []
    /// The number of the route; 0 for none.
    var route = 0
    /// The caller, as the route's check found it. `nil` without a check that sets it.
    package var principal: (any Principal)?
    /// Whether the route's check has exempted the connection from the limit of its address.
    package var exemptsConnection = false
    /// The time at which the head was complete, in milliseconds of the loop's clock.
    package let startedAt: UInt64
    let requestID: RequestID

    init(
        loop: EventLoop,
        head: RequestHead,
        remoteAddress: SocketAddress,
        clientAddress: SocketAddress,
        proxies: TrustedProxies?,
        isSecure: Bool
    ) {
        self.loop = loop
        self.head = head
        path = head.path
        self.remoteAddress = remoteAddress
        self.clientAddress = clientAddress
        self.proxies = proxies
        self.isSecure = isSecure
        startedAt = loop.now
        requestID = RequestID(of: head)
    }

    package var method: HTTPRequest.Method { head.method }

    /// Whether the peer is a trusted proxy, so that its report of the client's address is believed.
    package var isForwarded: Bool { proxies != nil }

    /// Whether trusted proxies have reported ``clientAddress``, and it is not the address of one of them: something that hides its
    /// clients, such as a balancer that adds no ``ForwardedField``, may have that.
    package var isClientReported: Bool {
        guard let proxies else { return false }
        return clientAddress != remoteAddress && !proxies.contains(clientAddress)
    }

    /// The id of this request in every log line and in `X-Request-Id`. It is the caller's id, if that is valid.
    package var id: String { requestID.text }

    /// Runs `body` to its end, even if the client goes away and this request's task is cancelled. Use it for events
    /// that are sent only once.
    package func uninterrupted<Value: Sendable>(
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await Task(executorPreference: loop, operation: body).value
    }

    /// The value of a header field, or `nil`. Several fields with this name are joined with commas.
    package subscript(name: HTTPField.Name) -> String? { head[name] }

    /// Returns the value of `{name}` in the route's pattern, or an empty string if the pattern has no such name.
    package func pathParameter(_ name: String) -> String {
        pathParameters.first { $0.name == name }?.value ?? ""
    }

    /// Returns the decoded names and values of the query, in order.
    ///
    /// - Throws: ``FormURLEncoded/ParseError``.
    package func queryItems() throws(FormURLEncoded.ParseError) -> [(name: String, value: String)] {
        try FormURLEncoded.parse(head.query)
    }

    /// The media type of `Content-Type`, in lower case and without parameters, or `nil`.
    package var contentType: String? {
        self[.contentType].map { value in
            // Most clients send only the type.
            let isPlain = value.utf8.allSatisfy { octet in
                (0x61...0x7A).contains(octet) || octet == UInt8(ascii: "/") || octet == UInt8(ascii: "-")
            }
            if isPlain { return value }
            let type = value.split(separator: ";", maxSplits: 1, omittingEmptySubsequences: false)[0]
            return String(type.trimmingSpaces()).lowercased()
        }
    }
}
