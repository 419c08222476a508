internal import HTTPTypes

/// Writes responses as bytes (RFC 9112 §4 to §6).
struct ResponseEncoder {
    /// The `Date` field of the second in hand, so that it is formatted once a second and not once a response.
    private var dateLine: [UInt8] = []
    private var dateSecond = Int.min

    static let continueResponse = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)

    /// How a response ends its exchange.
    struct Ending {
        /// The request was HEAD: the length is told, the body is not sent.
        var omitsBody: Bool
        /// The connection is closed after this response.
        var closes: Bool
        /// An HTTP/1.0 client that asked for it is told that its connection is kept.
        var saysKeepAlive: Bool
    }

    /// Appends `response` to `output`.
    ///
    /// - Parameter unixSeconds: Now, for the `Date` field.
    mutating func encode(_ response: Response, ending: Ending, unixSeconds: Int, into output: inout [UInt8]) {
        let status = response.status
        output.reserveCapacity(output.count + 256 + response.body.count)
        output.append("HTTP/1.1 ")
        output.append(decimal: status.code)
        output.append(" ")
        output.append(contentsOf: status.reasonPhrase.utf8)
        output.append("\r\n")
        appendDate(unixSeconds, to: &output)
        for field in response.headerFields {
            output.append(contentsOf: field.name.rawName.utf8)
            output.append(": ")
            output.append(contentsOf: field.value.utf8)
            output.append("\r\n")
        }
        // A 204 has no length at all, not even 0, and a 304 would have to tell that of the 200 (RFC 9110 §8.6).
        let hasLength = status.code != 204 && status.code != 304
        if hasLength {
            output.append("Content-Length: ")
            output.append(decimal: response.body.count)
            output.append("\r\n")
        }
        if ending.closes {
            output.append("Connection: close\r\n")
        } else if ending.saysKeepAlive {
            output.append("Connection: keep-alive\r\n")
        }
        output.append("\r\n")
        if hasLength && !ending.omitsBody { output.append(contentsOf: response.body) }
    }

    private mutating func appendDate(_ unixSeconds: Int, to output: inout [UInt8]) {
        if unixSeconds != dateSecond {
            dateSecond = unixSeconds
            dateLine = Array("Date: \(CivilDate(unixSeconds: unixSeconds).httpDate)\r\n".utf8)
        }
        output.append(contentsOf: dateLine)
    }
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
