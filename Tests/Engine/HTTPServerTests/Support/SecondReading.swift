import HTTPTypes
import Net

@testable import HTTPServer

/// A second, independent reading of the requests that a connection accepted. It parses the whole stream at once,
/// without speed in mind, and shares no code with the engine.
///
/// It knows what must be true of an accepted request (RFC 9112 §2.2, §3, §5, §6, §7.1), not why a refused one was
/// refused.
struct SecondReading {
    /// A rule that an accepted request violates.
    struct Violation: Error, CustomStringConvertible {
        let description: String

        init(_ description: String) {
            self.description = description
        }
    }

    let stream: [UInt8]
    let limits: HeadLimits
    let maximumBodyBytes: Int

    /// - Throws: ``Violation`` with the first rule that the requests in `events` violate.
    func check(_ events: [RecordedEvent]) throws(Violation) {
        var position: Int? = 0
        for event in events {
            switch event {
            case .continues: break
            case .request(let request):
                guard let start = position else { throw Violation("a request follows the final one") }
                position = try check(request, at: start)
            case .refused, .lingers, .closes: position = nil
            }
        }
    }

    /// Returns the offset where the next request may begin, or `nil` if there must be none.
    private func check(_ request: RecordedRequest, at position: Int) throws(Violation) -> Int? {
        let headStart = request.headEnd - request.head.bytes.count
        guard headStart >= position, stream[position..<headStart].isEmpty || text(position..<headStart) == "\r\n" else {
            throw Violation("a head does not begin at the end of the previous request")
        }
        guard stream[headStart..<request.headEnd].elementsEqual(request.head.bytes) else {
            throw Violation("a head's bytes differ from the stream")
        }
        let keepsAlive = try check(request.head, headStart..<request.headEnd)
        let body = try body(of: request.head, from: request.headEnd)
        guard let end = request.end else {
            // Answered early. After a body with an end, another request may follow. The exception is a client that
            // waits for `100 Continue` with a body, because it may or may not send that body.
            let waits = request.head.expectsContinue && request.head.framing != .fixed(0)
            return keepsAlive && !waits ? body?.end : nil
        }
        guard let body, body.end == end, body.bytes == request.body else {
            throw Violation("a body does not match its framing")
        }
        guard body.bytes.count <= maximumBodyBytes else { throw Violation("a body is larger than the limit") }
        return keepsAlive ? end : nil
    }

    // MARK: Heads

    /// Returns whether the connection is kept after the request.
    private func check(_ head: RequestHead, _ range: Range<Int>) throws(Violation) -> Bool {
        let bytes = stream[range]
        guard bytes.count <= limits.headerBytes else { throw Violation("a head is larger than the limit") }
        guard bytes.suffix(4).elementsEqual("\r\n\r\n".utf8) else { throw Violation("a head has no end") }
        var lines: [ArraySlice<UInt8>] = []
        var lineStart = range.lowerBound
        for index in range.dropFirst() where stream[index - 1] == 0x0D && stream[index] == 0x0A {
            lines.append(stream[lineStart..<index - 1])
            lineStart = index + 1
        }
        for line in lines where line.contains(where: { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F }) {
            throw Violation("a line contains a bare CR or LF, a NUL or another control character")
        }
        let words = lines[0].split(separator: 0x20, omittingEmptySubsequences: false).map {
            String(decoding: $0, as: UTF8.self)
        }
        guard words.count == 3, !lines[0].contains(0x09) else {
            throw Violation("a request line is not three words separated by single spaces")
        }
        guard ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS"].contains(words[0]),
            words[0] == head.method.rawValue
        else { throw Violation("the method differs from the one sent") }
        guard words[2] == (head.isHTTP10 ? "HTTP/1.0" : "HTTP/1.1") else { throw Violation("the version is wrong") }
        try check(target: words[1], of: head)
        guard lines.last?.isEmpty == true else { throw Violation("a head has no empty line at its end") }
        return try check(fields: Array(lines[1..<lines.count - 1]), of: head)
    }

    private func check(target: String, of head: RequestHead) throws(Violation) {
        guard target.utf8.count <= limits.targetBytes else { throw Violation("a target is longer than the limit") }
        guard target.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }) else {
            throw Violation("a target contains an invalid character")
        }
        let query = String(decoding: head.query, as: UTF8.self)
        let given = head.path + (head.queryRange == nil ? "" : "?" + query)
        guard !head.path.utf8.contains(UInt8(ascii: "?")) else { throw Violation("a path contains a query") }
        if target.utf8.first == UInt8(ascii: "/") || target == "*" && head.method == .options {
            guard given == target else { throw Violation("path and query differ from the target") }
            return
        }
        guard let scheme = ["https://", "http://"].first(where: { target.lowercased().hasPrefix($0) }) else {
            throw Violation("a target is neither path, URL nor asterisk")
        }
        let rest = target.utf8.dropFirst(scheme.utf8.count)
        let host = rest.prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        guard isHost(host) else { throw Violation("the target's host is malformed") }
        // A URL with an empty path has the path `/` (RFC 9110 §4.2.3).
        let path = String(decoding: rest.dropFirst(host.count), as: UTF8.self)
        guard given == (path.hasPrefix("/") ? path : "/" + path) else {
            throw Violation("path and query differ from the URL's")
        }
    }

    /// Returns whether `bytes` are not empty and contain no character that would end a host or hide a second one.
    private func isHost(_ bytes: some Collection<UInt8>) -> Bool {
        let others = Array("/?#@\\\"<>".utf8)
        return !bytes.isEmpty && bytes.allSatisfy { $0 > 0x20 && $0 < 0x7F && !others.contains($0) }
    }

    private func check(fields: [ArraySlice<UInt8>], of head: RequestHead) throws(Violation) -> Bool {
        guard fields.count <= limits.fields else { throw Violation("the number of fields exceeds the limit") }
        var values: [String: [String]] = [:]
        for field in fields {
            guard let colon = field.firstIndex(of: UInt8(ascii: ":")), colon > field.startIndex,
                field[..<colon].allSatisfy(isTokenCharacter)
            else { throw Violation("a field does not begin with a token and a colon") }
            var value = field[(colon + 1)...]
            while value.last == 0x20 || value.last == 0x09 { value.removeLast() }
            let trimmed = value.drop { $0 == 0x20 || $0 == 0x09 }
            let name = String(decoding: field[..<colon], as: UTF8.self).lowercased()
            values[name, default: []].append(String(decoding: trimmed, as: UTF8.self))
        }
        guard head.headerFields.count == fields.count else { throw Violation("a field is missing") }
        let hosts = values["host"] ?? []
        guard hosts.count == 1 || head.isHTTP10 && hosts.isEmpty else {
            throw Violation("the number of Host fields is not one")
        }
        guard hosts.allSatisfy({ isHost($0.utf8) }) else { throw Violation("the Host is malformed") }
        try check(lengths: values["content-length"] ?? [], codings: values["transfer-encoding"] ?? [], of: head)
        let options = (values["connection"] ?? []).joined(separator: ",").lowercased().split(separator: ",")
            .map { $0.trimmingSpace }
        let keeps = !options.contains("close") && (!head.isHTTP10 || options.contains("keep-alive"))
        guard head.keepsAlive == keeps else {
            throw Violation("keepsAlive does not match version and Connection")
        }
        return keeps
    }

    private func check(lengths: [String], codings: [String], of head: RequestHead) throws(Violation) {
        guard lengths.count + codings.count <= 1 else { throw Violation("the framing is declared more than once") }
        let expected: BodyFraming
        if let coding = codings.first {
            guard coding.lowercased() == "chunked", !head.isHTTP10 else {
                throw Violation("a coding other than chunked")
            }
            expected = .chunked
        } else if let length = lengths.first {
            guard !length.isEmpty, length.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let number = Int(length) else {
                throw Violation("a length that is not a number")
            }
            expected = .fixed(number)
        } else {
            expected = .fixed(0)
        }
        guard head.framing == expected else { throw Violation("the framing does not match the fields") }
    }

    private func isTokenCharacter(_ octet: UInt8) -> Bool {
        switch octet {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: "!#$%&'*+-.^_`|~".utf8.contains(octet)
        }
    }

    // MARK: Bodies

    /// Returns the body that begins at `start` and its end, or `nil` if the body is truncated or malformed.
    private func body(of head: RequestHead, from start: Int) throws(Violation) -> (bytes: [UInt8], end: Int)? {
        switch head.framing {
        case .untilEnd:
            throw Violation("a request ends with the connection")
        case .fixed(let length):
            guard length <= stream.count - start else { return nil }
            return (Array(stream[start..<start + length]), start + length)
        case .chunked:
            var bytes: [UInt8] = []
            var position = start
            while let size = line(at: &position) {
                let digits = text(size).split(separator: ";", omittingEmptySubsequences: false)[0]
                guard (1...15).contains(digits.utf8.count), digits.utf8.allSatisfy(isHexadecimal),
                    let count = Int(digits, radix: 16), count <= stream.count - position
                else { return nil }
                bytes += stream[position..<position + count]
                position += count
                guard count > 0 else { break }
                guard stream[position...].starts(with: "\r\n".utf8) else { return nil }
                position += 2
            }
            while let trailer = line(at: &position) {
                guard let first = stream[trailer].first else { return (bytes, position) }
                guard isTokenCharacter(first) else { return nil }
            }
            return nil
        }
    }

    /// Returns the line at `position` and moves `position` past its CRLF. Returns `nil` if the line is incomplete or
    /// contains a control character.
    private func line(at position: inout Int) -> Range<Int>? {
        guard let end = stream[position...].firstIndex(where: { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F }),
            stream[end...].starts(with: "\r\n".utf8)
        else { return nil }
        defer { position = end + 2 }
        return position..<end
    }

    private func isHexadecimal(_ octet: UInt8) -> Bool {
        switch octet {
        case 0x30...0x39, 0x41...0x46, 0x61...0x66: true
        default: false
        }
    }

    private func text(_ range: Range<Int>) -> String {
        String(decoding: stream[range], as: UTF8.self)
    }
}

extension Substring {
    /// The text without leading and trailing spaces and tabs.
    fileprivate var trimmingSpace: String {
        var rest = self
        while rest.last == " " || rest.last == "\t" { rest.removeLast() }
        return String(rest.drop { $0 == " " || $0 == "\t" })
    }
}
