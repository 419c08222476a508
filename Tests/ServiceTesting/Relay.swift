import Dispatch
import EventLoop
import Glibc
import Locking
import TestSupport

/// A relay before a server that forwards one request per connection, and returns the response as a test changes it.
package final class Relay: Sendable {
    /// Returns the bytes for the client instead of a response of the server, or `nil` to close the connection. The
    /// first response has the number 1.
    package typealias Change = @Sendable (_ number: Int, _ answer: [UInt8]) -> [UInt8]?

    /// The URL of the relay.
    package let url: String
    private let listener: Int32
    private let count = Locked(0)

    /// The number of requests that the server has responded to.
    package var requests: Int { count.withLock { $0 } }

    /// - Parameter url: The URL of the server, which listens on 127.0.0.1.
    package init(to url: String, _ change: @escaping Change) throws {
        let port = url.split(separator: ":").last.flatMap { UInt16($0) } ?? 0
        let (listener, own) = try LoopbackSocket.listen(backlog: 8)
        self.listener = listener
        self.url = "http://127.0.0.1:\(own)"
        let count = count
        // The loop ends when the listener is shut down. It blocks, so it must not run as a task, which shares a few
        // threads.
        EventLoop.blocking.async {
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { break }
                Self.relay(client, port, count, change)
                close(client)
            }
            close(listener)
        }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
    }

    /// Relays one request of a connection and its response.
    private static func relay(_ client: Int32, _ port: UInt16, _ count: Locked<Int>, _ change: Change) {
        guard let server = try? LoopbackSocket.connect(to: port) else { return }
        defer { close(server) }
        var request: [UInt8] = []
        while !isWhole(request) {
            let piece = receive(client)
            guard !piece.isEmpty else { return }
            request += piece
        }
        guard sendAll(request, to: server) else { return }
        // The server writes a short response in one piece.
        let answer = receive(server)
        let number = count.withLock { count in
            count += 1
            return count
        }
        guard let answer = change(number, answer) else { return }
        _ = sendAll(answer, to: client)
    }

    private static func isWhole(_ request: [UInt8]) -> Bool {
        let text = String(decoding: request, as: UTF8.self)
        guard let end = text.utf8.firstRange(of: "\r\n\r\n".utf8) else { return false }
        let length = text[..<end.lowerBound].split(separator: "\r\n")
            .first { $0.lowercased().hasPrefix("content-length:") }
            .flatMap { $0.split(separator: " ").last }.flatMap { Int($0) }
        return text.utf8[end.upperBound...].count >= length ?? 0
    }

    private static func receive(_ descriptor: Int32) -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 64 * 1024)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return Array(buffer.prefix(max(0, count)))
    }
}
