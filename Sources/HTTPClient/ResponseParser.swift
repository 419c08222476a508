/// Parses one response from a connection's bytes, in pieces of any size (RFC 9112).
///
/// It is pure: no I/O, no clock. Interim responses are skipped, chunks are joined, trailer fields are dropped.
struct ResponseParser {
    /// The maximum number of header fields. Like ``maximumHeadBytes``, it is far above what a server has reason to
    /// send.
    private static let maximumFields = 128
    private static let maximumHeadBytes = 64 * 1024
    private static let version = Array("HTTP/1.".utf8)

    enum State: Equatable {
        case statusLine
        case fields
        /// The body, with this many bytes still expected.
        case body(Int)
        case bodyUntilEnd
        case chunkSize
        case chunk(Int)
        case chunkEnd
        case trailerFields
        /// The response is complete. Final.
        case complete
        /// The response is invalid or too large. Final.
        case failed(Failure)
    }

    enum Failure: Equatable {
        case tooLarge
        /// The response is invalid. The message is for people and quotes nothing of the response.
        case malformed(String)
    }

    private(set) var state = State.statusLine
    /// Whether any byte was received.
    private(set) var hasBegun = false
    private(set) var status = 0
    /// The header lines, each followed by a line feed.
    private(set) var head: [UInt8] = []
    private(set) var body: [UInt8] = []
    /// Whether another request may follow on the connection after this response (RFC 9112 §9.3).
    private(set) var keepsConnection = true

    private let isHead: Bool
    private let maximumBodyBytes: Int
    private let truncatesBody: Bool
    /// The bytes of all heads and trailers, including interim responses. Without this limit a host could send them
    /// forever.
    private var headBytes = 0
    private var fieldCount = 0
    /// The start of a line whose end has not been received.
    private var line: [UInt8] = []
    private var contentLength: Int?
    private var hasTransferEncoding = false
    private var isChunked = false

    /// - Parameters:
    ///   - isHead: Whether the request's method is HEAD. The response then has no body, whatever its head says.
    ///   - truncatesBody: Whether a body that is too long is cut off, and the connection not used again.
    init(isHead: Bool, maximumBodyBytes: Int, truncatesBody: Bool = false) {
        self.isHead = isHead
        self.maximumBodyBytes = maximumBodyBytes
        self.truncatesBody = truncatesBody
    }

    /// Parses received bytes. Bytes after the end of the response are not consumed.
    ///
    /// - Returns: The number of bytes consumed.
    mutating func receive(_ bytes: UnsafeRawBufferPointer) -> Int {
        if !bytes.isEmpty { hasBegun = true }
        var position = 0
        while position < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[position...])
            switch state {
            case .complete, .failed: return position
            case .body(let count):
                let part = min(count, rest.count)
                take(rest.prefix(part), then: count == part ? .complete : .body(count - part))
                position += part
            case .chunk(let count):
                let part = min(count, rest.count)
                take(rest.prefix(part), then: count == part ? .chunkEnd : .chunk(count - part))
                position += part
            case .bodyUntilEnd:
                take(rest[...], then: .bodyUntilEnd)
                position = bytes.count
            case .statusLine, .fields, .chunkSize, .chunkEnd, .trailerFields:
                position += receiveLine(rest)
            }
        }
        return position
    }

    /// Handles the end of the connection. Returns whether the response is complete.
    mutating func receiveEnd() -> Bool {
        if state == .bodyUntilEnd { state = .complete }
        if state == .statusLine, !line.isEmpty { state = .failed(.malformed("the response is not HTTP/1")) }
        return state == .complete
    }

    private mutating func take(_ part: Slice<UnsafeRawBufferPointer>, then next: State) {
        guard part.count <= maximumBodyBytes - body.count else {
            guard truncatesBody else {
                state = .failed(.tooLarge)
                return
            }
            body.append(contentsOf: UnsafeRawBufferPointer(rebasing: part.prefix(maximumBodyBytes - body.count)))
            (state, keepsConnection) = (.complete, false)
            return
        }
        body.append(contentsOf: UnsafeRawBufferPointer(rebasing: part))
        state = next
    }

    // MARK: Lines

    /// Consumes a line, or the available part of it. Returns the number of bytes consumed.
    private mutating func receiveLine(_ bytes: UnsafeRawBufferPointer) -> Int {
        let end = bytes.firstIndex(of: 0x0A)
        let count = end.map { $0 + 1 } ?? bytes.count
        headBytes += count
        guard headBytes <= Self.maximumHeadBytes else {
            state = .failed(.tooLarge)
            return count
        }
        guard let end else {
            line.append(contentsOf: bytes)
            if state == .statusLine, !zip(line, Self.version).allSatisfy(==) {
                state = .failed(.malformed("the response is not HTTP/1"))
            }
            return count
        }
        if line.isEmpty {
            receive(line: Self.withoutReturn(bytes[..<end]))
        } else {
            line.append(contentsOf: bytes[..<end])
            let whole = line
            line.removeAll(keepingCapacity: true)
            whole.withUnsafeBytes { receive(line: Self.withoutReturn($0[...])) }
        }
        return count
    }

    /// Removes the CR of a CRLF. A line may also end with LF alone (RFC 9112 §2.2).
    private static func withoutReturn(_ line: Slice<UnsafeRawBufferPointer>) -> Slice<UnsafeRawBufferPointer> {
        line.last == 0x0D ? line.dropLast() : line
    }

    private mutating func receive(line: Slice<UnsafeRawBufferPointer>) {
        switch state {
        case .statusLine: receiveStatusLine(line)
        case .fields where line.isEmpty: endHead()
        case .fields: receiveField(line)
        case .chunkSize: receiveChunkSize(line)
        case .chunkEnd: state = line.isEmpty ? .chunkSize : .failed(.malformed("a chunk exceeds its size"))
        case .trailerFields where line.isEmpty: state = .complete
        case .trailerFields, .body, .bodyUntilEnd, .chunk, .complete, .failed: break
        }
    }

    /// Parses the status line (RFC 9112 §4).
    private mutating func receiveStatusLine(_ line: Slice<UnsafeRawBufferPointer>) {
        let digits = line.dropFirst(9).prefix(3)
        let minor = line.dropFirst(7).first
        guard line.starts(with: Self.version), minor == UInt8(ascii: "0") || minor == UInt8(ascii: "1"),
            line.dropFirst(8).first == UInt8(ascii: " "), digits.count == 3, digits.allSatisfy(Self.isDigit),
            line.dropFirst(12).first ?? UInt8(ascii: " ") == UInt8(ascii: " ")
        else {
            state = .failed(.malformed("the response is not HTTP/1"))
            return
        }
        status = digits.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
        keepsConnection = minor == UInt8(ascii: "1")
        state = status >= 100 ? .fields : .failed(.malformed("the status code is below 100"))
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    // MARK: Fields

    private mutating func receiveField(_ line: Slice<UnsafeRawBufferPointer>) {
        fieldCount += 1
        guard fieldCount <= Self.maximumFields else {
            state = .failed(.tooLarge)
            return
        }
        // Continuation lines are skipped: they are obsolete (RFC 9112 §5.2).
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), line.first != 0x20, line.first != 0x09 else { return }
        head.append(contentsOf: UnsafeRawBufferPointer(rebasing: line))
        head.append(0x0A)
        let (name, value) = (line[..<colon], line[(colon + 1)...])
        if Self.equal(name, "content-length") {
            receiveContentLength(value)
        } else if Self.equal(name, "transfer-encoding") {
            hasTransferEncoding = true
            isChunked = Self.tokens(value).last.map { Self.equal($0, "chunked") } ?? false
        } else if Self.equal(name, "connection") {
            for token in Self.tokens(value) {
                if Self.equal(token, "close") { keepsConnection = false }
                if Self.equal(token, "keep-alive") { keepsConnection = true }
            }
        }
    }

    private mutating func receiveContentLength(_ value: Slice<UnsafeRawBufferPointer>) {
        let digits = Self.trimmed(value)
        // 18 digits cannot overflow an `Int`; no body is longer.
        guard (1...18).contains(digits.count), digits.allSatisfy(Self.isDigit) else {
            state = .failed(.malformed("Content-Length is not a valid number"))
            return
        }
        let length = digits.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
        guard contentLength == nil || contentLength == length else {
            state = .failed(.malformed("there are two different Content-Length values"))
            return
        }
        contentLength = length
    }

    /// Determines how the body ends (RFC 9112 §6.3).
    private mutating func endHead() {
        if (100..<200).contains(status) {
            guard status != 101 else {
                state = .failed(.malformed("the host switched to another protocol unasked (status 101)"))
                return
            }
            head.removeAll(keepingCapacity: true)
            (fieldCount, contentLength, hasTransferEncoding, isChunked) = (0, nil, false, false)
            state = .statusLine
            return
        }
        if isHead || status == 204 || status == 304 {
            state = .complete
        } else if isChunked {
            // A host that also sends a length may frame the body differently.
            if contentLength != nil { keepsConnection = false }
            state = .chunkSize
        } else if let contentLength, !hasTransferEncoding {
            guard contentLength <= maximumBodyBytes || truncatesBody else {
                state = .failed(.tooLarge)
                return
            }
            body.reserveCapacity(min(contentLength, maximumBodyBytes))
            state = contentLength == 0 ? .complete : .body(contentLength)
        } else {
            keepsConnection = false
            state = .bodyUntilEnd
        }
    }

    /// Parses a chunk's size (RFC 9112 §7.1). Extensions are ignored.
    private mutating func receiveChunkSize(_ line: Slice<UnsafeRawBufferPointer>) {
        let digits = Self.trimmed(line.prefix { $0 != UInt8(ascii: ";") })
        var size = 0
        for digit in digits {
            guard let value = Character(Unicode.Scalar(digit)).hexDigitValue, size <= Int.max >> 8 else {
                state = .failed(.malformed("a chunk size is not a valid hexadecimal number"))
                return
            }
            size = size << 4 | value
        }
        guard !digits.isEmpty else {
            state = .failed(.malformed("a chunk size is not a valid hexadecimal number"))
            return
        }
        state = size == 0 ? .trailerFields : .chunk(size)
    }

    // MARK: Text

    private static func equal(_ text: Slice<UnsafeRawBufferPointer>, _ name: StaticString) -> Bool {
        guard text.count == name.utf8CodeUnitCount else { return false }
        // 0x20 converts a letter to lower case; `-` has that bit already.
        return zip(text, UnsafeBufferPointer(start: name.utf8Start, count: text.count)).allSatisfy { $0 | 0x20 == $1 }
    }

    private static func tokens(_ value: Slice<UnsafeRawBufferPointer>) -> [Slice<UnsafeRawBufferPointer>] {
        value.split(separator: UInt8(ascii: ",")).map(trimmed)
    }

    private static func trimmed(_ text: Slice<UnsafeRawBufferPointer>) -> Slice<UnsafeRawBufferPointer> {
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
        var text = text.drop(while: isSpace)
        while let last = text.last, isSpace(last) { text.removeLast() }
        return text
    }
}
