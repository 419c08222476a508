import Dispatch
import EventLoop
import Glibc
import HTTPTypes
import TestSupport

/// An upload whose bytes a test sends in pieces, partly, or with pauses.
///
/// Used by one task at a time.
package final class RawUpload: Sendable {
    private let descriptor: Int32

    /// Connects and sends the head of a request with a body of `length` bytes.
    ///
    /// - Parameter asksFirst: Whether the head has `Expect: 100-continue`.
    package init(
        _ api: TestClient,
        _ path: String,
        length: Int,
        method: String = "PUT",
        type: String = "text/plain",
        asksFirst: Bool = false
    ) throws {
        // Each piece is sent in a separate packet.
        descriptor = try LoopbackSocket.connect(to: api.url.split(separator: ":").last.flatMap { UInt16($0) } ?? 0)
        let head = [
            "\(method) \(path) HTTP/1.1", "Host: 127.0.0.1",
            "Content-Type: \(type)", "Content-Length: \(length)", "Connection: close",
        ]
        let authorization = api.authorization.map { ["Authorization: \($0)"] } ?? []
        let fields = authorization + api.headerFields.map { "\($0.name.rawName): \($0.value)" }
        let end = asksFirst ? ["Expect: 100-continue", "", ""] : ["", ""]
        try send(Array((head + fields + end).joined(separator: "\r\n").utf8))
    }

    deinit {
        close(descriptor)
    }

    /// Sends bytes, which must be few enough to fit into the socket's buffer.
    package func send(_ bytes: [UInt8]) throws {
        guard sendAll(bytes, to: descriptor) else { throw SystemError(call: "send") }
    }

    /// Shuts the connection down before the upload is complete.
    package func abandon() {
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    /// Returns the complete response, up to the end of the connection.
    package func answer() async throws -> String {
        var answer: [UInt8] = []
        while let piece = await receive(4096) { answer += piece }
        return String(decoding: answer, as: UTF8.self)
    }

    /// Returns the next bytes of the response, at most `limit`, or `nil` at its end.
    package func receive(_ limit: Int) async -> [UInt8]? {
        await withCheckedContinuation { continuation in
            EventLoop.blocking.async {
                var buffer = [UInt8](repeating: 0, count: limit)
                let count = recv(self.descriptor, &buffer, buffer.count, 0)
                continuation.resume(returning: count > 0 ? Array(buffer[..<count]) : nil)
            }
        }
    }
}
