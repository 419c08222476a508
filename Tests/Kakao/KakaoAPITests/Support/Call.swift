import Glibc

/// A call as received by the stub of Kakao.
struct Call: Sendable {
    let lines: [String]
    let body: String

    /// Reads one request, head and body. Returns `nil` if the caller closes before its end.
    init?(readingFrom descriptor: Int32) {
        var bytes: [UInt8] = []
        while true {
            if let call = Call(bytes) {
                self = call
                return
            }
            var part = [UInt8](repeating: 0, count: 16 * 1024)
            let count = recv(descriptor, &part, part.count, 0)
            guard count > 0 else { return nil }
            bytes += part[..<count]
        }
    }

    /// Returns `nil` if the request is incomplete.
    private init?(_ bytes: [UInt8]) {
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
        lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).split(separator: "\r\n").map { String($0) }
        body = String(decoding: bytes[end.upperBound...], as: UTF8.self)
        let length = lines.first { $0.hasPrefix("Content-Length: ") }.flatMap { Int($0.dropFirst(16)) } ?? 0
        guard body.utf8.count >= length else { return nil }
    }

    /// The decoded fields of the form as `name=value`, in order.
    var form: [String] {
        body.split(separator: "&").map { Self.decoded($0) }
    }

    private static func decoded(_ text: Substring) -> String {
        var bytes: [UInt8] = []
        var rest = Substring(text).utf8
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%"), let code = UInt8(String(rest.prefix(2)) ?? "", radix: 16) {
                bytes.append(code)
                rest.removeFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// Returns a response of Kakao as sent over the wire.
func answer(_ status: Int = 200, _ body: String = "", head: String = "") -> String {
    "HTTP/1.1 \(status) Said\r\nContent-type: application/json;charset=UTF-8\r\n"
        + "Content-Length: \(body.utf8.count)\r\nConnection: close\r\n\(head)\r\n\(body)"
}
