package import HTTPTypes

/// The way in which the end of a request's body is determined (RFC 9112 §6.3).
package enum BodyFraming: Equatable, Sendable {
    /// `Content-Length`, or 0 if the request has no body.
    case fixed(Int)
    /// `Transfer-Encoding: chunked`.
    case chunked
}

/// A validated request line and header section, stored as received bytes.
///
/// A header becomes a `String` only on access, because most headers are never read.
///
/// A class, so that passing it on costs one reference count and not one per property.
package final class RequestHead: Sendable {
    /// The bytes from the method up to and including the empty line.
    let bytes: [UInt8]
    let pathRange: Range<Int>
    let queryRange: Range<Int>?
    /// The start of the first field line.
    let fieldsStart: Int
    /// The range of the value of `X-Request-Id`, which is needed for every request. `nil` unless the field occurs
    /// exactly once.
    let requestIDRange: Range<Int>?

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
        self.fieldsStart = fieldsStart
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
    package subscript(name: HTTPField.Name) -> String? {
        var result: String?
        forEachField { bytes, nameRange, valueRange in
            guard bytes.equals(name.canonicalName, in: nameRange) else { return }
            let value = String(decoding: bytes[valueRange], as: UTF8.self)
            result = result.map { "\($0), \(value)" } ?? value
        }
        return result
    }

    /// All fields, for callers that need more than one or two.
    package var headerFields: HTTPFields {
        var fields = HTTPFields()
        forEachField { bytes, nameRange, valueRange in
            guard let name = HTTPField.Name(String(decoding: bytes[nameRange], as: UTF8.self)) else { return }
            fields.append(HTTPField(name: name, value: String(decoding: bytes[valueRange], as: UTF8.self)))
        }
        return fields
    }

    private func forEachField(_ body: (UnsafeRawBufferPointer, Range<Int>, Range<Int>) -> Void) {
        bytes.withUnsafeBytes { bytes in
            var start = fieldsStart
            // The parser has verified that each line ends in CRLF and contains a colon, and that the last line is
            // empty.
            while let end = bytes.firstIndex(of: Octets.lineFeed, from: start), end - 1 > start,
                let colon = bytes.firstIndex(of: Octets.colon, from: start)
            {
                body(bytes, start..<colon, bytes.trimmed(colon + 1..<end - 1))
                start = end + 1
            }
        }
    }
}

extension UnsafeRawBufferPointer {
    /// Returns whether the token in `range` equals `name`, which is lower case.
    fileprivate func equals(_ name: String, in range: Range<Int>) -> Bool {
        guard name.utf8.count == range.count else { return false }
        var index = range.lowerBound
        for octet in name.utf8 {
            guard self[index] | 0x20 == octet | 0x20 else { return false }
            index += 1
        }
        return true
    }
}
