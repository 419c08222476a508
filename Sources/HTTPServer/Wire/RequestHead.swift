package import HTTPTypes

/// How the end of a request's body is known (RFC 9112 §6.3).
package enum BodyFraming: Equatable, Sendable {
    /// `Content-Length`, or 0 when the request has no body.
    case fixed(Int)
    /// `Transfer-Encoding: chunked`.
    case chunked
}

/// A request's line and header section, checked and kept as the bytes they came in.
///
/// A header becomes a `String` when somebody asks for it, and not before: most requests carry headers that nobody reads.
///
/// A class, so that handing it on costs one reference count and not one for each of its parts.
package final class RequestHead: Sendable {
    /// From the method to the empty line, both included.
    let bytes: [UInt8]
    let pathRange: Range<Int>
    let queryRange: Range<Int>?
    /// Where the first field line begins.
    let fieldsStart: Int
    /// The value of `X-Request-Id`, which is wanted of every request, if that stands there once.
    let requestIDRange: Range<Int>?

    package let method: HTTPRequest.Method
    package let framing: BodyFraming
    /// Whether the connection may serve another request after this one (RFC 9112 §9.3).
    package let keepsAlive: Bool
    /// Whether the client waits for `100 Continue` before it sends the body (RFC 9110 §10.1.1).
    package let expectsContinue: Bool
    /// HTTP/1.0: gets no chunked response, and is told when its connection is kept.
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

    /// The target's path as it was sent: still percent-encoded, `*` for a request about the server itself.
    package var path: String {
        // `http://host` has none, which is the same as `/` (RFC 9110 §4.2.3).
        pathRange.isEmpty ? "/" : String(decoding: bytes[pathRange], as: UTF8.self)
    }

    /// The target's query without its `?`, still encoded; empty when there is none.
    package var query: ArraySlice<UInt8> {
        queryRange.map { bytes[$0] } ?? []
    }

    /// The value of a field; several fields of that name are joined with commas (RFC 9110 §5.3). `nil` when there is none.
    package subscript(name: HTTPField.Name) -> String? {
        var result: String?
        forEachField { bytes, nameRange, valueRange in
            guard bytes.equals(name.canonicalName, in: nameRange) else { return }
            let value = String(decoding: bytes[valueRange], as: UTF8.self)
            result = result.map { "\($0), \(value)" } ?? value
        }
        return result
    }

    /// All fields, for whoever needs more than one or two.
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
            // The parser has seen that each line ends in CRLF and has a colon; the last line is empty.
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
    /// Whether the token in `range` is `name`, which is lower case.
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
