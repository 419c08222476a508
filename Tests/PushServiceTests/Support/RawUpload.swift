import Dispatch
import EventLoop
import Glibc
import TestSupport

/// An upload whose bytes a test sends as it likes: one by one, half of them, or none for a while.
///
/// Used by one task at a time.
final class RawUpload: Sendable {
    private let descriptor: Int32

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
        // Each piece in a packet of its own.
        descriptor = try LoopbackSocket.connect(to: api.url.split(separator: ":").last.flatMap { UInt16($0) } ?? 0)
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
        guard sendAll(bytes, to: descriptor) else { throw SystemError(call: "send") }
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
