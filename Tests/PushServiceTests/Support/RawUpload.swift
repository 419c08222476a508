import Dispatch
import EventLoop
import Glibc

/// An upload whose bytes a test sends as it likes: one by one, half of them, or none for a while.
///
/// Used by one task at a time.
final class RawUpload: Sendable {
    private let descriptor: Int32

    struct Failure: Error {
        let call: String
        let code: Int32
    }

    /// Connects and sends the head of a request with a body of so many bytes.
    ///
    /// - Parameter asksFirst: Whether the server is asked for leave to send the body (`Expect: 100-continue`).
    init(
        _ api: Caller,
        _ path: String,
        length: Int,
        method: String = "PUT",
        type: String = "text/plain",
        asksFirst: Bool = false
    ) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = (api.url.split(separator: ":").last.flatMap { UInt16($0) } ?? 0).bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                connect(descriptor, address, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { throw Failure(call: "connect", code: errno) }
        // Each piece in a packet of its own.
        var yes: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(MemoryLayout<Int32>.size))
        let head = [
            "\(method) \(path) HTTP/1.1", "Host: test", "Authorization: \(api.authorization ?? "")",
            "Content-Type: \(type)", "Content-Length: \(length)", "Connection: close",
        ]
        let end = asksFirst ? ["Expect: 100-continue", "", ""] : ["", ""]
        try send(Array((head + end).joined(separator: "\r\n").utf8))
    }

    deinit {
        close(descriptor)
    }

    /// Sends bytes; few enough for the socket to take them at once.
    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { bytes in
                Glibc.send(
                    descriptor,
                    bytes.baseAddress.map { $0 + sent },
                    bytes.count - sent,
                    Int32(MSG_NOSIGNAL)
                )
            }
            guard count > 0 else { throw Failure(call: "send", code: errno) }
            sent += count
        }
    }

    /// Goes away in the middle.
    func abandon() {
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    /// The whole answer, up to the end of the connection.
    func answer() async throws -> String {
        var answer: [UInt8] = []
        while let piece = await receive(4096) { answer += piece }
        return String(decoding: answer, as: UTF8.self)
    }

    /// What comes next of the answer, up to so many bytes; `nil` at its end.
    func receive(_ limit: Int) async -> [UInt8]? {
        await withCheckedContinuation { continuation in
            EventLoop.blocking.async {
                var buffer = [UInt8](repeating: 0, count: limit)
                let count = recv(self.descriptor, &buffer, buffer.count, 0)
                continuation.resume(returning: count > 0 ? Array(buffer[..<count]) : nil)
            }
        }
    }
}
