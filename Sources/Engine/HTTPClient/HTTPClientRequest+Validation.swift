import HTTPTypes

extension HTTPClientRequest {
    /// The header fields that say where a message ends. Only the client writes them: two parties that disagree about a
    /// message's end can be played off against each other (RFC 9112 §11.2).
    private static let framingFields: [HTTPField.Name] = [.contentLength, .transferEncoding, .expect]

    /// Returns the request's origin.
    ///
    /// - Throws: ``HTTPClientError/Code/invalidRequest``. Header fields need no further check: their types cannot
    ///   contain line ends.
    func validate() throws(HTTPClientError) -> Origin {
        guard let origin = Origin(url: url) else { throw Self.invalid("the URL is not a valid http or https URL") }
        guard method != .connect else { throw Self.invalid("the method CONNECT is not supported") }
        guard method != .head || body.isEmpty && upload == nil else {
            throw Self.invalid("a HEAD request must not have a body")
        }
        for name in Self.framingFields where headerFields.contains(name) {
            throw Self.invalid("the header field \(name.rawName) is set by the client")
        }
        return origin
    }

    private static func invalid(_ message: String) -> HTTPClientError {
        HTTPClientError(code: .invalidRequest, mayHaveBeenSent: false, message: message)
    }
}
