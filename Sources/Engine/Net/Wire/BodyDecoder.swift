import HTTPTypes

/// Removes the framing from a body, in pieces of any size (RFC 9112 §6 and §7). Public for the same reason as ``OutputBuffer``.
public struct BodyDecoder: Sendable {
    /// The maximum length of all chunk extensions and trailers together. They are read and discarded.
    private static let overheadLimit = 16 * 1024

    @usableFromInline enum State: Equatable, Sendable {
        /// A body of known length. Can transition to `complete`.
        case fixed(remaining: Int)
        /// A body that ends with the connection.
        case untilEnd
        /// The hexadecimal digits of a chunk's size. Can transition to `chunkExtension`, `chunkSizeEnd`.
        case chunkSize(value: Int, digits: Int)
        /// The rest of the line after a chunk's size. Can transition to `chunkSizeEnd`.
        case chunkExtension(value: Int)
        /// The LF after a chunk's size. Can transition to `chunkData`, or `trailerStart` after the last chunk.
        case chunkSizeEnd(value: Int)
        /// Can transition to `chunkDataEnd`.
        case chunkData(remaining: Int)
        /// The CRLF after a chunk's data; the CR may have been read. Can transition to `chunkSize`.
        case chunkDataEnd(sawCarriageReturn: Bool)
        /// The start of a trailer line. Can transition to `trailerName`, `trailerLineEnd`.
        case trailerStart
        /// Can transition to `trailerLine`.
        case trailerName
        /// The rest of a trailer line after the colon. Can transition to `trailerLineEnd`.
        case trailerLine
        /// The LF of a trailer line. Can transition to `trailerStart`, or `complete` after the empty line.
        case trailerLineEnd(isLast: Bool)
        case complete
    }

    @usableFromInline private(set) var state: State
    private var overhead = 0

    package init(_ framing: BodyFraming) {
        state =
            switch framing {
            case .untilEnd: .untilEnd
            case .fixed(0): .complete
            case .fixed(let length): .fixed(remaining: length)
            case .chunked: .chunkSize(value: 0, digits: 0)
            }
    }

    /// Whether the whole body has been read.
    @inlinable public var isComplete: Bool {
        if case .complete = state { true } else { false }
    }

    /// The number of bytes still expected. `nil` if only the end of the body will tell.
    @inlinable public var remaining: Int? {
        switch state {
        case .fixed(let remaining): remaining
        case .complete: 0
        default: nil
        }
    }

    /// Decodes the part of `input` that belongs to the body.
    ///
    /// - Parameter receive: Called with each run of body bytes, which is valid only during the call.
    /// - Returns: The number of bytes consumed. It is less than the length of `input` only if the body is complete.
    /// - Throws: ``ProtocolError`` if the chunks are malformed.
    package mutating func decode(
        _ input: UnsafeRawBufferPointer,
        _ receive: (UnsafeRawBufferPointer) -> Void
    ) throws(ProtocolError) -> Int {
        var index = 0
        while index < input.count, state != .complete {
            switch state {
            case .fixed(let remaining):
                let taken = min(remaining, input.count - index)
                receive(UnsafeRawBufferPointer(rebasing: input[index..<index + taken]))
                state = taken == remaining ? .complete : .fixed(remaining: remaining - taken)
                index += taken
            case .untilEnd:
                receive(UnsafeRawBufferPointer(rebasing: input[index...]))
                index = input.count
            case .chunkData(let remaining):
                let taken = min(remaining, input.count - index)
                receive(UnsafeRawBufferPointer(rebasing: input[index..<index + taken]))
                state =
                    taken == remaining
                    ? .chunkDataEnd(sawCarriageReturn: false) : .chunkData(remaining: remaining - taken)
                index += taken
            default:
                try step(input[index])
                index += 1
            }
        }
        return index
    }

    /// Processes one byte of the chunk framing.
    private mutating func step(_ octet: UInt8) throws(ProtocolError) {
        switch state {
        case .chunkSize(let value, let digits):
            if let digit = Octets.hexDigit(octet) {
                // 15 digits stay below 2^60. No body is that long, and the sum of two such sizes cannot overflow.
                guard digits < 15 else { throw .badRequest("A chunk size has too many digits.") }
                state = .chunkSize(value: value << 4 | digit, digits: digits + 1)
            } else {
                guard digits > 0 else { throw .badRequest("A chunk size is not a hexadecimal number.") }
                switch octet {
                case Octets.carriageReturn: state = .chunkSizeEnd(value: value)
                case UInt8(ascii: ";"): state = .chunkExtension(value: value)
                default: throw .badRequest("A chunk size is not a hexadecimal number.")
                }
            }
        case .chunkExtension(let value):
            try countOverhead()
            if octet == Octets.carriageReturn {
                state = .chunkSizeEnd(value: value)
            } else if !Octets.isFieldContent(octet) {
                throw .badRequest("A chunk extension has a control character.")
            }
        case .chunkSizeEnd(let value):
            try expectLineFeed(octet)
            state = value == 0 ? .trailerStart : .chunkData(remaining: value)
        case .chunkDataEnd(sawCarriageReturn: false):
            guard octet == Octets.carriageReturn else { throw .badRequest("A chunk does not end where its size says.") }
            state = .chunkDataEnd(sawCarriageReturn: true)
        case .chunkDataEnd(sawCarriageReturn: true):
            try expectLineFeed(octet)
            state = .chunkSize(value: 0, digits: 0)
        case .trailerStart:
            try countOverhead()
            if octet == Octets.carriageReturn {
                state = .trailerLineEnd(isLast: true)
            } else {
                guard Octets.isToken(octet) else { throw .badRequest("A trailer does not begin with a token.") }
                state = .trailerName
            }
        case .trailerName:
            try countOverhead()
            if octet == Octets.colon {
                state = .trailerLine
            } else if !Octets.isToken(octet) {
                throw .badRequest("A trailer line is not a token followed by a colon.")
            }
        case .trailerLine:
            try countOverhead()
            if octet == Octets.carriageReturn {
                state = .trailerLineEnd(isLast: false)
            } else if !Octets.isFieldContent(octet) {
                throw .badRequest("A trailer has a control character.")
            }
        case .trailerLineEnd(let isLast):
            try expectLineFeed(octet)
            state = isLast ? .complete : .trailerStart
        case .fixed, .untilEnd, .chunkData, .complete:
            break
        }
    }

    private func expectLineFeed(_ octet: UInt8) throws(ProtocolError) {
        guard octet == Octets.lineFeed else { throw .badRequest("A line of the chunked body ends in CR without LF.") }
    }

    private mutating func countOverhead() throws(ProtocolError) {
        overhead += 1
        guard overhead <= Self.overheadLimit else {
            throw ProtocolError(
                .requestHeaderFieldsTooLarge,
                "Chunk extensions and trailers are larger than \(Self.overheadLimit) bytes."
            )
        }
    }
}
