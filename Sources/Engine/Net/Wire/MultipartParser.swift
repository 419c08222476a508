/// A parser for `multipart/form-data`, the format of forms with files (RFC 7578, RFC 2046 §5.1). It is fed the body as
/// it arrives, in pieces of any size.
///
/// The parser is stricter than most senders need: a head has lines that end with CR LF, each part has a name, and a
/// boundary is followed by the end of its line. It keeps at most one line of a head or the beginning of a boundary.
package struct MultipartParser: Sendable {
    /// A form or a part that is malformed. After it, the rest of the body cannot be read.
    package struct ParseError: Error, Equatable {
        /// A description of the error for the client's developer. It quotes nothing that the client sent.
        package let reason: String

        init(_ reason: String) {
            self.reason = reason
        }
    }

    /// A part, as its head describes it.
    package struct Part: Equatable, Sendable {
        /// The name of the form's field.
        package let name: String
        /// The name of the file; `nil` for a part that is not a file.
        package let fileName: String?
        /// The media type as the sender states it.
        package let contentType: String?
    }

    package enum Event: Equatable, Sendable {
        case partBegan(Part)
        /// The next bytes of the part's content, at least one.
        case bytes(ArraySlice<UInt8>)
        case partEnded
        /// The form is complete. The rest of the body is ignored.
        case ended
    }

    /// The media type of these forms.
    package static let mediaType = "multipart/form-data"
    /// The maximum number of parts.
    package static let maximumParts = 20
    /// The maximum length of a part's head with its boundary, in bytes.
    package static let maximumHeadBytes = 8 * 1024
    /// The maximum length of a boundary (RFC 2046 §5.1.1).
    private static let maximumBoundaryBytes = 70

    private enum State {
        /// The text before the first boundary, which has no meaning. Can transition to `boundary`.
        case preamble
        /// A boundary was read, up to what distinguishes the last one. Can transition to `boundaryLine`, `epilogue`.
        case boundary
        /// The end of a boundary's line. Can transition to `head`.
        case boundaryLine
        /// The head of a part. Can transition to `bodyStart`.
        case head(Head)
        /// The empty line before a content, which may also begin the boundary of a part without one. Can transition to
        /// `body`, `boundary`.
        case bodyStart
        /// The content of a part. Can transition to `boundary`.
        case body
        /// The form is complete.
        case epilogue
        /// Any state can transition to it.
        case failed(ParseError)
    }

    /// The line end, the hyphens and the boundary that precede each part.
    private let delimiter: [UInt8]
    private var state = State.preamble
    /// The bytes that were received but not consumed. The first boundary needs no line end before it, so one is assumed.
    private var pending: [UInt8] = [Octets.carriageReturn, Octets.lineFeed]
    /// The place in ``pending`` up to which it is consumed.
    private var start = 0
    /// The place in ``pending`` up to which it contains no line feed, while a line is incomplete.
    private var scanned = 0
    private var headBytes = 0
    private var parts = 0

    /// - Parameter contentType: The value of the request's `Content-Type`.
    /// - Throws: ``ParseError`` if it is of another type, or has no valid boundary.
    package init(contentType: String) throws(ParseError) {
        guard let value = ParameterizedValue(contentType.utf8), value.text == Self.mediaType else {
            throw ParseError("The Content-Type is not multipart/form-data with a boundary.")
        }
        guard let boundary = value["boundary"], (1...Self.maximumBoundaryBytes).contains(boundary.count),
            boundary.allSatisfy({ (0x20...0x7E).contains($0) }), boundary.last != Octets.space
        else {
            throw ParseError("The Content-Type needs a boundary of 1 to 70 ASCII characters.")
        }
        delimiter = Array("\r\n--".utf8) + boundary
    }

    // MARK: Reading

    /// Reads the next piece of the body, and returns what it completes.
    ///
    /// - Throws: ``ParseError``, also for each further piece.
    package mutating func receive(_ piece: some Collection<UInt8>) throws(ParseError) -> [Event] {
        var events: [Event] = []
        if case .epilogue = state { return events }
        pending.append(contentsOf: piece)
        do throws(ParseError) {
            while try step(&events) {}
        } catch {
            state = .failed(error)
            pending = []
            throw error
        }
        if case .epilogue = state { pending = [] } else { pending.removeSubrange(..<start) }
        scanned = max(0, scanned - start)
        start = 0
        return events
    }

    /// Checks that the form is complete. Called at the end of the body.
    package func finish() throws(ParseError) {
        switch state {
        case .epilogue: return
        case .failed(let error): throw error
        case .preamble: throw ParseError("The form does not contain the boundary that its Content-Type names.")
        case .boundary, .boundaryLine, .head, .bodyStart, .body:
            throw ParseError("The form ends before its last boundary.")
        }
    }

    /// Takes one step of the state machine. Returns `false` if it needs more bytes, or the form has ended.
    private mutating func step(_ events: inout [Event]) throws(ParseError) -> Bool {
        switch state {
        case .preamble:
            guard skipToDelimiter(nil) else { return false }
            state = .boundary
        case .boundary:
            guard pending.count - start >= 2 else { return false }
            guard pending[start] == UInt8(ascii: "-"), pending[start + 1] == UInt8(ascii: "-") else {
                guard parts < Self.maximumParts else {
                    throw ParseError("The form has more than \(Self.maximumParts) parts.")
                }
                parts += 1
                (state, headBytes, scanned) = (.boundaryLine, 0, start)
                return true
            }
            state = .epilogue
            events.append(.ended)
        case .boundaryLine:
            guard let line = try nextLine() else { return false }
            // RFC 2046 §5.1.1: padding that a transport may have added.
            guard pending[line].allSatisfy({ $0 == Octets.space || $0 == Octets.tab }) else {
                throw ParseError("A boundary is followed by other bytes than the end of its line.")
            }
            state = .head(Head())
        case .head(var head):
            guard let line = try nextLine() else { return false }
            if line.isEmpty {
                events.append(.partBegan(try head.part()))
                // The line end of the empty line.
                start -= 2
                state = .bodyStart
            } else {
                try head.add(pending[line])
                state = .head(head)
            }
        case .bodyStart:
            switch matchesDelimiter(at: start) {
            case nil: return false
            case true?:
                start += delimiter.count
                state = .boundary
                events.append(.partEnded)
            case false?:
                start += 2
                state = .body
            }
        case .body:
            var content: Range<Int>?
            let hasEnded = skipToDelimiter { content = $0 }
            if let content { events.append(.bytes(pending[content])) }
            guard hasEnded else { return false }
            state = .boundary
            events.append(.partEnded)
        case .epilogue:
            return false
        case .failed(let error):
            throw error
        }
        return true
    }

    /// Consumes the bytes before the next delimiter, and the delimiter. Returns `false` if there is none yet: then all
    /// bytes that cannot belong to one are consumed.
    ///
    /// - Parameter receive: Called with the place of the bytes before the delimiter, if there are any.
    private mutating func skipToDelimiter(_ receive: ((Range<Int>) -> Void)?) -> Bool {
        var end = start
        var isFound = false
        // A match that fails contains no second CR, so each byte is compared at most twice.
        search: while true {
            guard let place = pending.withUnsafeBytes({ $0.firstIndex(of: Octets.carriageReturn, from: end) }) else {
                end = pending.count
                break
            }
            end = place
            switch matchesDelimiter(at: place) {
            case nil: break search
            case true?:
                isFound = true
                break search
            case false?: end += 1
            }
        }
        if end > start { receive?(start..<end) }
        start = isFound ? end + delimiter.count : end
        return isFound
    }

    /// Returns whether a delimiter begins at a place; `nil` if more bytes are needed to know.
    private func matchesDelimiter(at place: Int) -> Bool? {
        let count = min(delimiter.count, pending.count - place)
        for offset in 0..<count where pending[place + offset] != delimiter[offset] { return false }
        return count == delimiter.count ? true : nil
    }

    /// Consumes a line of a part's head, and returns its place without the line end; `nil` if it is incomplete.
    private mutating func nextLine() throws(ParseError) -> Range<Int>? {
        let end = pending.withUnsafeBytes { $0.firstIndex(of: Octets.lineFeed, from: max(start, scanned)) }
        guard headBytes + (end.map { $0 + 1 } ?? pending.count) - start <= Self.maximumHeadBytes else {
            throw ParseError("The head of a part is longer than \(Self.maximumHeadBytes) bytes.")
        }
        guard let end else {
            scanned = pending.count
            return nil
        }
        guard end > start, pending[end - 1] == Octets.carriageReturn else {
            throw ParseError("A line in the head of a part ends with LF instead of CR LF.")
        }
        let line = start..<end - 1
        headBytes += end + 1 - start
        start = end + 1
        scanned = start
        return line
    }
}

// MARK: Heads

/// The head of a part, as far as it was read.
private struct Head {
    private var disposition: ParameterizedValue?
    private var contentType: String?

    mutating func add(_ line: ArraySlice<UInt8>) throws(MultipartParser.ParseError) {
        guard let colon = line.firstIndex(of: Octets.colon), colon > line.startIndex,
            line[..<colon].allSatisfy(Octets.isToken), line.allSatisfy(Octets.isFieldContent)
        else { throw MultipartParser.ParseError("The head of a part has a line that is not `name: value`.") }
        let value = line[(colon + 1)...]
        switch String(decoding: line[..<colon], as: UTF8.self).lowercased() {
        case "content-disposition":
            guard disposition == nil else {
                throw MultipartParser.ParseError("A part has two Content-Disposition header fields.")
            }
            guard let parsed = ParameterizedValue(value), parsed.text == "form-data" else {
                throw MultipartParser.ParseError(
                    "The Content-Disposition of a part is not form-data with valid parameters."
                )
            }
            disposition = parsed
        case "content-type":
            contentType = String(String(decoding: value, as: UTF8.self)[...].trimmingSpaces())
        case "content-transfer-encoding":
            // RFC 7578 §4.7 deprecates it. These leave the content as it is.
            let encoding = String(decoding: value, as: UTF8.self)[...].trimmingSpaces().lowercased()
            guard ["binary", "8bit", "7bit"].contains(encoding) else {
                throw MultipartParser.ParseError("A part has a Content-Transfer-Encoding. Send its content as it is.")
            }
        default:
            break
        }
    }

    func part() throws(MultipartParser.ParseError) -> MultipartParser.Part {
        guard let name = disposition?["name"], let name = String(validating: name, as: UTF8.self) else {
            throw MultipartParser.ParseError("A part has no name in UTF-8 in its Content-Disposition.")
        }
        return MultipartParser.Part(
            name: name,
            // The name of a file has no meaning here, so its encoding does not matter.
            fileName: disposition?["filename"].map { String(decoding: $0, as: UTF8.self) },
            contentType: contentType
        )
    }
}

/// The value of a header field of the form `text; name=value; name="value"` (RFC 9110 §5.6.6).
struct ParameterizedValue {
    /// The part before the parameters, in lower case.
    let text: String
    private var parameters: [(name: String, value: [UInt8])] = []

    /// `nil` if a parameter is malformed or occurs twice.
    init?(_ bytes: some Collection<UInt8>) {
        var rest = ArraySlice(Array(bytes))
        let first = rest.prefix { $0 != UInt8(ascii: ";") }
        text = String(decoding: first, as: UTF8.self)[...].trimmingSpaces().lowercased()
        rest = rest[first.endIndex...]
        while rest.popFirst() != nil {
            rest = Self.withoutSpaces(rest)
            guard let next = rest.first else { break }
            guard next != UInt8(ascii: ";") else { continue }
            let name = rest.prefix(while: Octets.isToken)
            rest = rest[name.endIndex...]
            guard !name.isEmpty, rest.popFirst() == UInt8(ascii: "=") else { return nil }
            guard let value = Self.value(&rest) else { return nil }
            let key = String(decoding: name, as: UTF8.self).lowercased()
            guard self[key] == nil else { return nil }
            parameters.append((key, value))
            rest = Self.withoutSpaces(rest)
            guard rest.isEmpty || rest.first == UInt8(ascii: ";") else { return nil }
        }
    }

    subscript(name: String) -> [UInt8]? {
        parameters.first { $0.name == name }?.value
    }

    private static func withoutSpaces(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        bytes.drop { $0 == Octets.space || $0 == Octets.tab }
    }

    /// Consumes a value. In quotes, a backslash escapes a quote and a backslash only: browsers send the backslashes of
    /// a path as they are.
    private static func value(_ rest: inout ArraySlice<UInt8>) -> [UInt8]? {
        guard rest.first == UInt8(ascii: "\"") else {
            let value = rest.prefix { $0 > Octets.space && $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: "\"") }
            rest = rest[value.endIndex...]
            return value.isEmpty ? nil : Array(value)
        }
        rest.removeFirst()
        var value: [UInt8] = []
        while let octet = rest.popFirst() {
            switch octet {
            case UInt8(ascii: "\""):
                return value
            case UInt8(ascii: "\\"):
                guard let next = rest.first, next == UInt8(ascii: "\"") || next == UInt8(ascii: "\\") else {
                    fallthrough
                }
                value.append(next)
                rest.removeFirst()
            default:
                value.append(octet)
            }
        }
        return nil
    }
}
