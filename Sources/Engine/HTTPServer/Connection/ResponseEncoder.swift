import HTTPTypes
import Net

/// Serializes responses (RFC 9112 §4 to §6).
///
/// A class for the same reason as ``ConnectionState``: to avoid an exclusivity check at each mutation.
final class ResponseEncoder {
    /// The status line, `Date`, `Content-Type` and constant fields of the last response. Most responses reuse them,
    /// because dates are formatted once a second.
    private var opening: [UInt8] = []
    private var openingStatus = HTTPResponse.Status.ok
    private var openingContentType: String?
    private var openingSecond = Int.min
    private let statusLines = StatusLines()

    static let continueResponse = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)

    /// The end of a chunked body, without trailers.
    static let lastChunk = Array("0\r\n\r\n".utf8)

    /// The properties of a response that depend on its request and connection.
    struct Ending {
        /// The request was HEAD: the length is sent, the body is not.
        var omitsBody = false
        /// The connection closes after this response.
        var closes = false
        /// The client speaks HTTP/1.0 and its connection is kept, so `Connection: keep-alive` is sent.
        var saysKeepAlive = false
        /// The body follows in chunks.
        var isChunked = false
    }

    /// Appends the head of `response` to `output`, and its body unless that is written in pieces.
    ///
    /// - Parameters:
    ///   - requestID: The request's id, for the `X-Request-Id` field.
    ///   - unixSeconds: The current time, for the `Date` field.
    func encode(
        _ response: Response,
        ending: Ending,
        requestID: RequestID,
        unixSeconds: Int,
        into output: inout [UInt8]
    ) {
        open(response, unixSeconds)
        output.reserveCapacity(output.count + opening.count + 256 + response.body.count)
        output.append(contentsOf: opening)
        for field in response.headerFields {
            output.append(contentsOf: field.name.rawName.utf8)
            output.append(": ")
            output.append(contentsOf: field.value.utf8)
            output.append("\r\n")
        }
        output.append("X-Request-Id: ")
        requestID.append(to: &output)
        if ending.isChunked {
            output.append("\r\nTransfer-Encoding: chunked")
        } else if response.pieces == nil, response.status.allowsBody {
            // A 204 must have no length at all, and a 304 would need the length of the 200 response (RFC 9110 §8.6).
            output.append("\r\nContent-Length: ")
            output.append(decimal: response.body.count)
        }
        if ending.closes {
            output.append("\r\nConnection: close")
        } else if ending.saysKeepAlive {
            output.append("\r\nConnection: keep-alive")
        }
        output.append("\r\n\r\n")
        if response.status.allowsBody, !ending.omitsBody { output.append(contentsOf: response.body) }
    }

    /// Appends one chunk (RFC 9112 §7.1). It must not be empty, because that would end the body.
    static func append(chunk: [UInt8], to output: inout [UInt8]) {
        precondition(!chunk.isEmpty)
        output.reserveCapacity(output.count + chunk.count + 20)
        output.append(contentsOf: String(chunk.count, radix: 16).utf8)
        output.append("\r\n")
        output.append(contentsOf: chunk)
        output.append("\r\n")
    }

    /// Updates ``opening`` for a response.
    private func open(_ response: Response, _ unixSeconds: Int) {
        let status = response.status
        guard unixSeconds != openingSecond || response.contentType != openingContentType || status != openingStatus
        else { return }
        openingSecond = unixSeconds
        openingStatus = status
        openingContentType = response.contentType
        opening.removeAll(keepingCapacity: true)
        opening.append(contentsOf: statusLines[status])
        opening.append("Date: ")
        opening.append(contentsOf: CivilDate(unixSeconds: unixSeconds).httpDate.utf8)
        // Browsers must use the declared Content-Type and not guess another (WHATWG Fetch §3.6).
        opening.append("\r\nX-Content-Type-Options: nosniff\r\n")
        if let contentType = response.contentType {
            opening.append("Content-Type: ")
            opening.append(contentsOf: contentType.utf8)
            opening.append("\r\n")
        }
    }
}

extension HTTPResponse.Status {
    /// Whether a response with this status may have a body (RFC 9110 §6.4.1).
    var allowsBody: Bool { code != 204 && code != 304 }
}

extension [UInt8] {
    fileprivate mutating func append(_ text: StaticString) {
        append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    fileprivate mutating func append(decimal number: Int) {
        guard number >= 10 else {
            append(0x30 + UInt8(number))
            return
        }
        append(decimal: number / 10)
        append(0x30 + UInt8(number % 10))
    }
}
