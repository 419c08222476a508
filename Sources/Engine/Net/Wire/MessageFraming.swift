import HTTPTypes

/// The way in which the end of a body is determined (RFC 9112 §6.3).
package enum BodyFraming: Equatable, Sendable {
    /// `Content-Length`, or 0 if there is no body.
    case fixed(Int)
    /// `Transfer-Encoding: chunked`.
    case chunked
    /// The body of a response that ends with the connection.
    case untilEnd
}

/// What the fields of a request or a response say about where the message ends, and about the connection.
struct FramingFields {
    private(set) var contentLength: Int?
    private(set) var isChunked = false
    private(set) var saysClose = false
    private(set) var saysKeepAlive = false

    /// Records a field.
    ///
    /// - Throws: ``ProtocolError`` if two parties could understand the end of the message differently.
    mutating func recordField(
        _ head: UnsafeRawBufferPointer,
        name: Range<Int>,
        value: Range<Int>
    ) throws(ProtocolError) {
        switch name.count {
        case 10 where head.matches("connection", in: name):
            head.forEachListMember(value) { member in
                if head.matches("close", in: member) { saysClose = true }
                if head.matches("keep-alive", in: member) { saysKeepAlive = true }
            }
        case 14 where head.matches("content-length", in: name):
            guard let length = head.decimal(in: value) else { throw .badRequest("Content-Length is not a number.") }
            guard contentLength == nil else { throw .badRequest("Content-Length is given more than once.") }
            contentLength = length
        case 17 where head.matches("transfer-encoding", in: name):
            guard !isChunked else { throw .badRequest("Transfer-Encoding is given more than once.") }
            guard head.matches("chunked", in: value) else {
                throw ProtocolError(.notImplemented, "The only supported transfer coding is chunked.")
            }
            isChunked = true
        default:
            break
        }
    }
}
