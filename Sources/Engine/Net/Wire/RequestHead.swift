package import HTTPTypes

/// A validated request line and header section, stored as received bytes.
///
/// A header becomes a `String` only on access, because most headers are never read.
///
/// A class, so that passing it on costs one reference count and not one per property.
package final class RequestHead: Sendable {
    /// The bytes from the method up to and including the empty line.
    package let bytes: [UInt8]
    package let pathRange: Range<Int>
    package let queryRange: Range<Int>?
    private let fields: FieldLines
    /// The range of the value of `X-Request-Id`, which is needed for every request. `nil` unless the field occurs
    /// exactly once.
    package let requestIDRange: Range<Int>?

    package let method: HTTPRequest.Method
    package let framing: BodyFraming
    /// Whether the connection may serve another request after this one (RFC 9112 §9.3).
    package let keepsAlive: Bool
    /// Whether the client waits for `100 Continue` before it sends the body (RFC 9110 §10.1.1).
    package let expectsContinue: Bool
    /// Whether the request is HTTP/1.0. Such a client gets no chunked response, and a `Connection: keep-alive` if its
    /// connection is kept.
    package let isHTTP10: Bool

    init(
        bytes: [UInt8],
        pathRange: Range<Int>,
        queryRange: Range<Int>?,
        fieldsStart: Int,
        requestIDRange: Range<Int>?,
        method: HTTPRequest.Method,
        framing: BodyFraming,
        keepsAlive: Bool,
        expectsContinue: Bool,
        isHTTP10: Bool
    ) {
        self.bytes = bytes
        self.pathRange = pathRange
        self.queryRange = queryRange
        fields = FieldLines(of: bytes, from: fieldsStart)
        self.requestIDRange = requestIDRange
        self.method = method
        self.framing = framing
        self.keepsAlive = keepsAlive
        self.expectsContinue = expectsContinue
        self.isHTTP10 = isHTTP10
    }

    /// The target's path as sent, still percent-encoded. `*` for a request about the server itself.
    package var path: String {
        // The path of `http://host` is empty, which is equivalent to `/` (RFC 9110 §4.2.3).
        pathRange.isEmpty ? "/" : String(decoding: bytes[pathRange], as: UTF8.self)
    }

    /// The target's query without `?`, still encoded. Empty if there is none.
    package var query: ArraySlice<UInt8> {
        queryRange.map { bytes[$0] } ?? []
    }

    /// The value of a field, or `nil`. Several fields with this name are joined with commas (RFC 9110 §5.3).
    package subscript(name: HTTPField.Name) -> String? { fields[name] }

    /// All fields, for callers that need more than one or two.
    package var headerFields: HTTPFields { fields.all }
}
