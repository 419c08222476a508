import HTTPTypes

/// The limits for a request head.
package struct HeadLimits: Sendable {
    /// The maximum length of the request line and all fields, in bytes. Beyond it 431, or 414 if the line alone is too
    /// long.
    package var headerBytes = 16 * 1024
    /// The maximum length of the request target, in bytes. Beyond it 414. RFC 9112 §3 recommends at least 8,000.
    package var targetBytes = 8 * 1024
    /// The maximum number of fields. Beyond it 431.
    package var fields = 100

    package init() {}
}

/// Parses a request head from bytes that arrive in pieces.
///
/// It is strict: where RFC 9112 leaves a choice, it takes the one that two parsers cannot understand differently. Lines
/// must end in CRLF, a bare CR or LF is refused, fields are not folded, and no length may be repeated.
package struct RequestHeadParser {
    private let limits: HeadLimits
    /// The start of the head, after the empty line that a client may send before it (RFC 9112 §2.2).
    private var start = 0
    /// The start of the first incomplete line. Bytes before it are not scanned again.
    private var lineStart = 0

    package init(limits: HeadLimits) {
        self.limits = limits
    }

    /// Parses a head at the beginning of `input`.
    ///
    /// - Parameter input: All bytes since the end of the last request. A later call must pass the same bytes and more.
    /// - Returns: The head and its length in bytes, or `nil` while it is incomplete.
    /// - Throws: ``ProtocolError`` as soon as the bytes cannot become a valid request.
    package mutating func parse(
        _ input: UnsafeRawBufferPointer
    ) throws(ProtocolError) -> (head: RequestHead, length: Int)? {
        // Each check is made as soon as its bytes are available, so that the result does not depend on how they arrive.
        try checkFirstOctet(input)
        while let end = input.firstIndex(of: Octets.lineFeed, from: lineStart) {
            try checkLength(of: end + 1 - start, isRequestLine: lineStart == start)
            guard end > lineStart, input[end - 1] == Octets.carriageReturn else {
                throw .badRequest("A line ends in LF without CR.")
            }
            let isEmpty = end - 1 == lineStart
            let isFirst = lineStart == start
            lineStart = end + 1
            if isEmpty && isFirst {
                guard start == 0 else { throw .badRequest("More than one empty line precedes the request line.") }
                start = lineStart
                try checkFirstOctet(input)
            } else if isEmpty {
                let head = UnsafeRawBufferPointer(rebasing: input[start..<lineStart])
                return (try read(head), lineStart)
            }
        }
        try checkLength(of: input.count - start, isRequestLine: lineStart == start)
        return nil
    }

    /// Refuses a first byte that cannot begin a method at once, not after a timeout. TLS on a plain port is an example.
    private func checkFirstOctet(_ input: UnsafeRawBufferPointer) throws(ProtocolError) {
        guard input.count > start, !Octets.isToken(input[start]), input[start] != Octets.carriageReturn,
            input[start] != Octets.lineFeed
        else { return }
        throw .badRequest("The method is not a token.")
    }

    private func checkLength(of length: Int, isRequestLine: Bool) throws(ProtocolError) {
        guard length > limits.headerBytes else { return }
        throw isRequestLine
            ? ProtocolError(.uriTooLong, "The request line is longer than \(limits.headerBytes) bytes.")
            : ProtocolError(
                .requestHeaderFieldsTooLarge,
                "The header section is larger than \(limits.headerBytes) bytes."
            )
    }

    // MARK: Request line

    private func read(_ head: UnsafeRawBufferPointer) throws(ProtocolError) -> RequestHead {
        guard let lineFeed = head.firstIndex(of: Octets.lineFeed, from: 0) else {
            throw .badRequest("The request line does not end.")
        }
        let lineEnd = lineFeed - 1
        var methodEnd = 0
        while methodEnd < lineEnd, Octets.isToken(head[methodEnd]) { methodEnd += 1 }
        guard methodEnd > 0, methodEnd < lineEnd, head[methodEnd] == Octets.space else {
            throw .badRequest("The method is not a token followed by one space.")
        }
        let targetStart = methodEnd + 1
        var targetEnd = targetStart
        while targetEnd < lineEnd, head[targetEnd] > 0x20, head[targetEnd] < 0x7F { targetEnd += 1 }
        guard targetEnd > targetStart, targetEnd < lineEnd, head[targetEnd] == Octets.space else {
            throw .badRequest("The request line is not a method, a target and a version separated by single spaces.")
        }
        guard targetEnd - targetStart <= limits.targetBytes else {
            throw ProtocolError(.uriTooLong, "The request target is longer than \(limits.targetBytes) bytes.")
        }
        let isHTTP10 = try readVersion(head, targetEnd + 1..<lineEnd)
        let method = try readMethod(head, 0..<methodEnd)
        let target = try readTarget(head, targetStart..<targetEnd, method)
        var fields = FieldFacts()
        try readFields(head, from: lineFeed + 1, into: &fields)
        try fields.check(isHTTP10: isHTTP10)
        return RequestHead(
            bytes: [UInt8](head),
            pathRange: target.path,
            queryRange: target.query,
            fieldsStart: lineFeed + 1,
            requestIDRange: fields.requestIDs == 1 ? fields.requestID : nil,
            method: method,
            framing: fields.framing.isChunked ? .chunked : .fixed(fields.framing.contentLength ?? 0),
            keepsAlive: !fields.framing.saysClose && (!isHTTP10 || fields.framing.saysKeepAlive),
            expectsContinue: fields.expectsContinue && !isHTTP10,
            isHTTP10: isHTTP10
        )
    }

    private func readVersion(_ head: UnsafeRawBufferPointer, _ range: Range<Int>) throws(ProtocolError) -> Bool {
        let start = range.lowerBound
        guard range.count == 8, head.equals("HTTP/", at: start), head[start + 6] == 0x2E,
            let major = Octets.digit(head[start + 5]), let minor = Octets.digit(head[start + 7])
        else { throw .badRequest("The version is not of the form HTTP/1.1.") }
        guard major == 1, minor <= 1 else {
            throw ProtocolError(.httpVersionNotSupported, "This server speaks HTTP/1.1 and HTTP/1.0.")
        }
        return minor == 0
    }

    private func readMethod(
        _ head: UnsafeRawBufferPointer,
        _ range: Range<Int>
    ) throws(ProtocolError) -> HTTPRequest.Method {
        switch range.count {
        case 3 where head.equals("GET", at: range.lowerBound): .get
        case 3 where head.equals("PUT", at: range.lowerBound): .put
        case 4 where head.equals("POST", at: range.lowerBound): .post
        case 4 where head.equals("HEAD", at: range.lowerBound): .head
        case 5 where head.equals("PATCH", at: range.lowerBound): .patch
        case 6 where head.equals("DELETE", at: range.lowerBound): .delete
        case 7 where head.equals("OPTIONS", at: range.lowerBound): .options
        default: throw ProtocolError(.notImplemented, "This server does not support the method.")
        }
    }

    /// Splits the target (RFC 9112 §3.2): `/path?query`, `http://host/path?query`, or `*` for OPTIONS.
    private func readTarget(
        _ head: UnsafeRawBufferPointer,
        _ range: Range<Int>,
        _ method: HTTPRequest.Method
    ) throws(ProtocolError) -> (path: Range<Int>, query: Range<Int>?) {
        let end = range.upperBound
        for index in range where head[index] == UInt8(ascii: "#") { throw .badRequest("The target has a fragment.") }
        if method == .options, range.count == 1, head[range.lowerBound] == UInt8(ascii: "*") { return (range, nil) }
        var pathStart = range.lowerBound
        if head[pathStart] != UInt8(ascii: "/") {
            pathStart = try skipAuthority(head, range)
        }
        let query = head.firstIndex(of: UInt8(ascii: "?"), from: pathStart).flatMap { $0 < end ? $0 : nil }
        let path = pathStart..<(query ?? end)
        return (path, query.map { $0 + 1..<end })
    }

    /// Returns the end of `http://host` in a target in absolute form, where the path begins.
    private func skipAuthority(_ head: UnsafeRawBufferPointer, _ range: Range<Int>) throws(ProtocolError) -> Int {
        let schemes: [StaticString] = ["http://", "https://"]
        for scheme in schemes {
            let start = range.lowerBound + scheme.utf8CodeUnitCount
            guard start < range.upperBound, head.matches(scheme, in: range.lowerBound..<start) else { continue }
            var end = start
            while end < range.upperBound, head[end] != UInt8(ascii: "/"), head[end] != UInt8(ascii: "?") { end += 1 }
            guard isAuthority(head, start..<end) else { throw .badRequest("The target's host is malformed.") }
            return end
        }
        throw .badRequest("The target is neither a path nor an http URL.")
    }

    // MARK: Fields

    /// What the fields of one request say that the server acts on.
    private struct FieldFacts {
        var framing = FramingFields()
        var hosts = 0
        var expectsContinue = false
        var requestID: Range<Int>?
        var requestIDs = 0

        func check(isHTTP10: Bool) throws(ProtocolError) {
            guard hosts == 1 || isHTTP10 && hosts == 0 else {
                throw .badRequest("A request must have exactly one Host header.")
            }
            guard framing.isChunked else { return }
            // A length together with a coding, or a coding from HTTP/1.0, indicates request smuggling (RFC 9112 §6.1).
            guard framing.contentLength == nil else {
                throw .badRequest("Both Content-Length and Transfer-Encoding are given.")
            }
            guard !isHTTP10 else { throw .badRequest("HTTP/1.0 has no Transfer-Encoding.") }
        }
    }

    private func readFields(
        _ head: UnsafeRawBufferPointer,
        from start: Int,
        into facts: inout FieldFacts
    ) throws(ProtocolError) {
        var count = 0
        try head.forEachFieldLine(from: start) { name, value throws(ProtocolError) in
            count += 1
            guard count <= limits.fields else {
                throw ProtocolError(.requestHeaderFieldsTooLarge, "There are more than \(limits.fields) header fields.")
            }
            guard let name else { throw .badRequest("A header line is not a token followed by a colon.") }
            for index in value where !Octets.isFieldContent(head[index]) {
                throw .badRequest("A header value has a control character.")
            }
            try recordField(head, name: name, value: value, in: &facts)
        }
    }

    private func recordField(
        _ head: UnsafeRawBufferPointer,
        name: Range<Int>,
        value: Range<Int>,
        in facts: inout FieldFacts
    ) throws(ProtocolError) {
        switch name.count {
        case 4 where head.matches("host", in: name):
            guard isAuthority(head, value) else { throw .badRequest("The Host is malformed.") }
            facts.hosts += 1
        case 6 where head.matches("expect", in: name):
            guard head.matches("100-continue", in: value) else {
                throw ProtocolError(.expectationFailed, "The only supported expectation is 100-continue.")
            }
            facts.expectsContinue = true
        case 12 where head.matches("x-request-id", in: name):
            facts.requestID = value
            facts.requestIDs += 1
        default:
            try facts.framing.recordField(head, name: name, value: value)
        }
    }

    /// Returns whether `range` is `host`, `host:port` or `[address]:port` (RFC 3986 §3.2). User information is not
    /// allowed.
    private func isAuthority(_ head: UnsafeRawBufferPointer, _ range: Range<Int>) -> Bool {
        var index = range.lowerBound
        if index < range.upperBound, head[index] == UInt8(ascii: "[") {
            index += 1
            while index < range.upperBound,
                Octets.hexDigit(head[index]) != nil || head[index] == Octets.colon || head[index] == 0x2E
            {
                index += 1
            }
            guard index > range.lowerBound + 2, index < range.upperBound, head[index] == UInt8(ascii: "]") else {
                return false
            }
            index += 1
        } else {
            while index < range.upperBound, Octets.isRegName(head[index]) { index += 1 }
            guard index > range.lowerBound else { return false }
        }
        guard index < range.upperBound else { return true }
        guard head[index] == Octets.colon else { return false }
        return range.upperBound - index <= 6
            && (index + 1..<range.upperBound).allSatisfy { Octets.digit(head[$0]) != nil }
    }
}
