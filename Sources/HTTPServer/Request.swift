package import EventLoop
package import HTTPTypes

/// A request as its handler sees it: the head, the whole body, and what routing found in the path.
///
/// A class, so that handing it on costs one reference count and not one for each of its parts.
package final class Request: @unchecked Sendable {
    // `body` and `pathParameters` are written by the request's connection, `principal`, `authenticatedAt` and `exemptsConnection` by the route's check, all on
    // the request's loop and before the handler is called; everything else is never changed.

    /// The loop that the request came in on, and that its handler runs on.
    package let loop: EventLoop
    /// The request line and the fields.
    package let head: RequestHead
    /// The target's path as it was sent: see ``RequestHead/path``.
    package let path: String
    /// Who is at the other end of the connection.
    package let remoteAddress: SocketAddress
    /// Who is trusted to say where the request comes from, if that is who is at the other end.
    private let proxies: TrustedProxies?
    /// Whether the connection is encrypted.
    package let isSecure: Bool
    /// The whole body, without its framing; empty until the handler is called.
    package internal(set) var body: [UInt8] = []
    /// What stands in the places that the route's pattern named, decoded.
    package internal(set) var pathParameters: [(name: String, value: String)] = []
    /// The caller's number in the service, as found by the route's check; `nil` without a check that finds it.
    package var principal: Int64?
    /// When the caller's credential was verified, if the route's check has found that; it may have been revoked since.
    package var authenticatedAt: MonotonicTime?
    /// Whether the route's check has found a caller whose connections do not count towards the limit of their address.
    package var exemptsConnection = false
    /// The milliseconds of the loop's clock when the head was complete.
    package let startedAt: UInt64
    let requestID: RequestID

    /// - Parameter proxies: `nil` when `remoteAddress` is none of them.
    init(
        loop: EventLoop,
        head: RequestHead,
        remoteAddress: SocketAddress,
        proxies: TrustedProxies? = nil,
        isSecure: Bool
    ) {
        self.loop = loop
        self.head = head
        path = head.path
        self.remoteAddress = remoteAddress
        self.proxies = proxies
        self.isSecure = isSecure
        startedAt = loop.now
        requestID = RequestID(of: head)
    }

    package var method: HTTPRequest.Method { head.method }

    /// Where the request comes from: the other end of the connection, or what a trusted proxy there says (`X-Forwarded-For`). Read
    /// anew each time.
    package var clientAddress: SocketAddress {
        guard let proxies else { return remoteAddress }
        return proxies.client(self[.forwardedFor], through: remoteAddress)
    }

    /// Names this request in every log line and in `X-Request-Id`: the caller's id, if it sent a sane one.
    package var id: String { requestID.text }

    /// Does something to its end, even if the client goes away meanwhile and this request's task is cancelled: for what will not be
    /// told again.
    package func uninterrupted<Value: Sendable>(
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await Task(executorPreference: loop, operation: body).value
    }

    /// The value of a header field, or `nil`. Several fields of that name are joined with commas.
    package subscript(name: HTTPField.Name) -> String? { head[name] }

    /// What stands in `{name}` of the route's pattern; empty for a name that the pattern does not have.
    package func pathParameter(_ name: String) -> String {
        pathParameters.first { $0.name == name }?.value ?? ""
    }

    /// The query's names and values in order, decoded.
    ///
    /// - Throws: ``FormURLEncoded/ParseError``.
    package func queryItems() throws(FormURLEncoded.ParseError) -> [(name: String, value: String)] {
        try FormURLEncoded.parse(head.query)
    }

    /// The media type of `Content-Type` in lower case and without its parameters, or `nil`.
    package var contentType: String? {
        self[.contentType].map { value in
            // Most clients send nothing but the type.
            let isPlain = value.utf8.allSatisfy { octet in
                (0x61...0x7A).contains(octet) || octet == UInt8(ascii: "/") || octet == UInt8(ascii: "-")
            }
            if isPlain { return value }
            let type = value.split(separator: ";", maxSplits: 1, omittingEmptySubsequences: false)[0]
            return String(type.trimmingSpaces()).lowercased()
        }
    }
}

extension Substring {
    func trimmingSpaces() -> Substring {
        var text = self
        while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }
}
