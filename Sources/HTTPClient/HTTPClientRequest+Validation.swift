internal import HTTPTypes

extension HTTPClientRequest {
    /// The fields that say where a message ends: two parties who differ about that can be played off against each other
    /// (RFC 9112 §11.2), so that the client writes them alone.
    private static let framingFields: [HTTPField.Name] = [.contentLength, .transferEncoding, .expect]

    /// Returns where the request goes.
    ///
    /// - Throws: ``HTTPClientError/Code/invalidRequest``. Header fields need no further check: their types hold no line
    ///   end.
    func validate() throws(HTTPClientError) -> Origin {
        guard let origin = Origin(url: url) else { throw Self.invalid("the URL is not one of http or https") }
        guard method != .connect else { throw Self.invalid("the method is CONNECT") }
        guard method != .head || body.isEmpty else { throw Self.invalid("a HEAD request has a body") }
        for name in Self.framingFields where headerFields.contains(name) {
            throw Self.invalid("the header field \(name.rawName) is the client's own")
        }
        return origin
    }

    private static func invalid(_ message: String) -> HTTPClientError {
        HTTPClientError(code: .invalidRequest, bodyBytesLeft: false, message: message)
    }
}
