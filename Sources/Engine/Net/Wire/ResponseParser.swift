import HTTPTypes

/// Parses one response from a connection's bytes, in pieces of any size (RFC 9112).
///
/// It is pure: no I/O, no clock. Interim responses are skipped, chunks are joined, trailer fields are dropped. Lines may
/// end with LF alone (RFC 9112 §2.2), and a field line that is none is ignored.
package struct ResponseParser: Sendable {
    /// The maximum number of header fields. Like ``maximumHeadBytes``, it is far above what a server has reason to
    /// send.
    private static let maximumFields = 128
    /// The maximum length of all heads, including those of interim responses. Without this limit a host could send them
    /// forever.
    private static let maximumHeadBytes = 64 * 1024
    /// The most memory that is allocated for a body before it arrives. Its length is only what the host says.
    private static let reservedBytes = 64 * 1024
    private static let version: StaticString = "HTTP/1."

    /// The part of the response that is expected next.
    package enum State: Equatable, Sendable {
        case head
        case body
        /// A body that ends with the connection.
        case bodyUntilEnd
        /// The response is complete. Final.
        case complete
        /// The response is invalid or too large. Final.
        case failed(Failure)
    }

    /// The reason why a response is rejected.
    package enum Failure: Error, Equatable, Sendable {
        case tooLarge
        /// The response is invalid. The message is for people and quotes nothing of the response.
        case malformed(String)
    }

    /// A parsed status line and header section.
    package struct Head: Sendable {
        package let status: Int
        package let fields: FieldLines
        /// The time for which the host keeps an idle connection, in seconds, if it says so (`Keep-Alive: timeout=5`).
        package let keepAliveTimeout: Int?
    }

    package private(set) var state = State.head
    /// Whether any byte was received.
    package private(set) var hasBegun = false
    /// The head of the final response. `nil` until it is complete.
    package private(set) var head: Head?
    /// The body as far as it was received, unless ``drainBody()`` has drained it.
    package private(set) var body: [UInt8] = []
    /// Whether another request may follow on the connection after this response (RFC 9112 §9.3).
    package private(set) var keepsConnection = true

    private let endsAfterHead: Bool
    private let maximumBodyBytes: Int
    private let truncatesBody: Bool
    /// The number of body bytes received.
    private var bodyBytes = 0
    private var headBytes = 0
    /// The received part of a head that is incomplete.
    private var pending: [UInt8] = []
    private var decoder = BodyDecoder(.fixed(0))

    /// - Parameters:
    ///   - endsAfterHead: Whether the response has no body, whatever its head says: for HEAD, and for CONNECT to a proxy.
    ///   - truncatesBody: Whether a body that is too long is cut off, and the connection not used again.
    package init(endsAfterHead: Bool, maximumBodyBytes: Int, truncatesBody: Bool = false) {
        self.endsAfterHead = endsAfterHead
        self.maximumBodyBytes = maximumBodyBytes
        self.truncatesBody = truncatesBody
    }

    /// Parses received bytes. Bytes after the end of the response are not consumed.
    ///
    /// - Returns: The number of bytes consumed.
    package mutating func receive(_ bytes: UnsafeRawBufferPointer) -> Int {
        if !bytes.isEmpty { hasBegun = true }
        var position = 0
        while position < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[position...])
            do throws(Failure) {
                switch state {
                case .complete, .failed: return position
                case .head: position += try receiveHead(rest)
                case .body, .bodyUntilEnd: position += try receiveBody(rest)
                }
            } catch {
                state = .failed(error)
                return position
            }
        }
        return position
    }

    /// Handles the end of the connection. Returns whether the response is complete.
    package mutating func receiveEnd() -> Bool {
        if state == .bodyUntilEnd { state = .complete }
        if state == .head, head == nil, !pending.isEmpty, !pending.contains(Octets.lineFeed) {
            state = .failed(.malformed("the response is not HTTP/1"))
        }
        return state == .complete
    }

    /// Returns the part of the body that was received since the last call.
    package mutating func drainBody() -> [UInt8] {
        var taken: [UInt8] = []
        swap(&taken, &body)
        return taken
    }

    // MARK: Head

    /// Reads a head, or the available part of it. Returns the number of bytes consumed.
    private mutating func receiveHead(_ bytes: UnsafeRawBufferPointer) throws(Failure) -> Int {
        // Nearly always the whole head arrives at once, and is not copied before it is parsed.
        guard pending.isEmpty else {
            let known = pending.count
            pending.append(contentsOf: bytes)
            let whole = pending
            let result = whole.withUnsafeBytes { bytes in
                Result { () throws(Failure) in try readHead(bytes, scanned: known) }
            }
            guard let length = try result.get() else { return bytes.count }
            pending = []
            return length - known
        }
        if let length = try readHead(bytes, scanned: 0) { return length }
        pending.append(contentsOf: bytes)
        return bytes.count
    }

    /// Parses the head at the beginning of `bytes`. Returns its length, or `nil` if it is incomplete.
    ///
    /// - Parameter scanned: The number of bytes that an earlier call has seen.
    private mutating func readHead(_ bytes: UnsafeRawBufferPointer, scanned: Int) throws(Failure) -> Int? {
        try checkStart(bytes)
        // The last lines of the part before may continue in this one.
        guard let end = Self.endOfHead(bytes, from: max(0, scanned - 2)) else {
            guard headBytes + bytes.count <= Self.maximumHeadBytes else { throw .tooLarge }
            return nil
        }
        headBytes += end
        guard headBytes <= Self.maximumHeadBytes else { throw .tooLarge }
        try read(UnsafeRawBufferPointer(rebasing: bytes[..<end]))
        return end
    }

    /// Returns the end of the first empty line that follows a line.
    private static func endOfHead(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
        var position = start
        while let lineFeed = bytes.firstIndex(of: Octets.lineFeed, from: position) {
            var next = lineFeed + 1
            if next < bytes.count, bytes[next] == Octets.carriageReturn { next += 1 }
            if next < bytes.count, bytes[next] == Octets.lineFeed { return next + 1 }
            position = lineFeed + 1
        }
        return nil
    }

    /// Refuses bytes that cannot begin a response at once, not after a timeout. SSH is an example.
    private func checkStart(_ bytes: UnsafeRawBufferPointer) throws(Failure) {
        let expected = UnsafeRawBufferPointer(start: Self.version.utf8Start, count: Self.version.utf8CodeUnitCount)
        guard zip(bytes, expected).allSatisfy(==) else { throw .malformed("the response is not HTTP/1") }
    }

    private mutating func read(_ bytes: UnsafeRawBufferPointer) throws(Failure) {
        let (status, isHTTP10) = try readStatusLine(bytes)
        guard status >= 200 else {
            // An interim response.
            guard status >= 100 else { throw .malformed("the status code is below 100") }
            guard status != 101 else {
                throw .malformed("the host switched to another protocol unasked (status 101)")
            }
            return
        }
        guard let lineFeed = bytes.firstIndex(of: Octets.lineFeed, from: 0) else { return }
        var framing = FramingFields()
        var count = 0
        var keepAlive: Int?
        do throws(ProtocolError) {
            try bytes.forEachFieldLine(from: lineFeed + 1) { name, value throws(ProtocolError) in
                count += 1
                guard let name else { return }
                try framing.recordField(bytes, name: name, value: value)
                if name.count == 10, bytes.matches("keep-alive", in: name) {
                    keepAlive = Self.timeout(bytes, value)
                }
            }
        } catch {
            throw .malformed(error.reason)
        }
        guard count <= Self.maximumFields else { throw .tooLarge }
        keepsConnection = !framing.saysClose && (!isHTTP10 || framing.saysKeepAlive)
        head = Head(
            status: status,
            fields: FieldLines(of: [UInt8](bytes), from: lineFeed + 1),
            keepAliveTimeout: keepAlive
        )
        try beginBody(framing, status)
    }

    /// Returns the parameter `timeout` of `Keep-Alive` (RFC 2068 §19.7.1.1).
    private static func timeout(_ bytes: UnsafeRawBufferPointer, _ value: Range<Int>) -> Int? {
        var seconds: Int?
        bytes.forEachListMember(value) { member in
            let name: StaticString = "timeout="
            let start = member.lowerBound + name.utf8CodeUnitCount
            guard start < member.upperBound, bytes.matches(name, in: member.lowerBound..<start) else { return }
            seconds = bytes.decimal(in: start..<member.upperBound)
        }
        return seconds
    }

    /// Parses the status line (RFC 9112 §4).
    private func readStatusLine(_ bytes: UnsafeRawBufferPointer) throws(Failure) -> (status: Int, isHTTP10: Bool) {
        // "HTTP/1.1 200", then a space and a reason, or the end of the line.
        guard bytes.count > 13, let minor = Octets.digit(bytes[7]), minor <= 1, bytes[8] == Octets.space,
            let status = bytes.decimal(in: 9..<12),
            [Octets.space, Octets.carriageReturn, Octets.lineFeed].contains(bytes[12])
        else { throw .malformed("the response is not HTTP/1") }
        return (status, minor == 0)
    }

    /// Determines how the body ends (RFC 9112 §6.3).
    private mutating func beginBody(_ framing: FramingFields, _ status: Int) throws(Failure) {
        if endsAfterHead || status == 204 || status == 304 {
            state = .complete
        } else if framing.isChunked {
            // A host that also sends a length may frame the body differently.
            if framing.contentLength != nil { keepsConnection = false }
            decoder = BodyDecoder(.chunked)
            state = .body
        } else if let length = framing.contentLength {
            guard length <= maximumBodyBytes || truncatesBody else { throw .tooLarge }
            body.reserveCapacity(min(length, maximumBodyBytes, Self.reservedBytes))
            decoder = BodyDecoder(.fixed(length))
            state = length == 0 ? .complete : .body
        } else {
            keepsConnection = false
            decoder = BodyDecoder(.untilEnd)
            state = .bodyUntilEnd
        }
    }

    // MARK: Body

    private mutating func receiveBody(_ bytes: UnsafeRawBufferPointer) throws(Failure) -> Int {
        var decoder = decoder
        var isTooLong = false
        let taken: Int
        do throws(ProtocolError) {
            taken = try decoder.decode(bytes) { run in
                let room = maximumBodyBytes - bodyBytes
                if run.count > room { isTooLong = true }
                body.append(contentsOf: run.prefix(room))
                bodyBytes += min(room, run.count)
            }
        } catch {
            guard error.status != .requestHeaderFieldsTooLarge else { throw .tooLarge }
            throw .malformed(error.reason)
        }
        self.decoder = decoder
        if isTooLong {
            guard truncatesBody else { throw .tooLarge }
            (state, keepsConnection) = (.complete, false)
        } else if decoder.isComplete {
            state = .complete
        }
        return taken
    }
}
