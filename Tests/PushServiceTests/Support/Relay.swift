import Dispatch
import EventLoop
import Glibc
import Locking

/// Stands before a server and hands each request on, one a connection, and the answer back as a test wants it.
final class Relay: Sendable {
    /// Makes what the client gets of the server's answer, the first of which has the number 1; `nil` to hang up instead.
    typealias Change = @Sendable (_ number: Int, _ answer: [UInt8]) -> [UInt8]?

    /// Its own address.
    let url: String
    private let listener: Int32
    private let count = Locked(0)

    /// The requests that the server has answered.
    var requests: Int { count.withLock { $0 } }

    /// - Parameter url: The server's, at 127.0.0.1.
    init(to url: String, _ change: @escaping Change) throws {
        let port = url.split(separator: ":").last.flatMap { UInt16($0) } ?? 0
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        self.listener = listener
        var address = Self.address(0)
        let isListening = Self.with(&address) { bind(listener, $0, $1) == 0 } && listen(listener, 8) == 0
        let isNamed = Self.with(&address) { pointer, size in
            var size = size
            return getsockname(listener, UnsafeMutablePointer(mutating: pointer), &size) == 0
        }
        guard isListening, isNamed else { throw Failure(code: errno) }
        self.url = "http://127.0.0.1:\(UInt16(bigEndian: address.sin_port))"
        let count = count
        // Ends when the listener is shut down. It blocks, so that it has no place among the tasks: they share a few threads.
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

    /// One request of a connection, and its answer.
    private static func relay(_ client: Int32, _ port: UInt16, _ count: Locked<Int>, _ change: Change) {
        let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(server) }
        var address = address(port)
        guard with(&address, { connect(server, $0, $1) == 0 }) else { return }
        var request: [UInt8] = []
        while !isWhole(request) {
            let piece = receive(client)
            guard !piece.isEmpty else { return }
            request += piece
        }
        guard send(server, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else { return }
        // The server writes a short answer at once.
        let answer = receive(server)
        let number = count.withLock { count in
            count += 1
            return count
        }
        guard let answer = change(number, answer) else { return }
        _ = send(client, answer, answer.count, Int32(MSG_NOSIGNAL))
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

    private static func address(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        return address
    }

    private static func with(
        _ address: inout sockaddr_in,
        _ body: (UnsafePointer<sockaddr>, socklen_t) -> Bool
    ) -> Bool {
        withUnsafeMutablePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    private struct Failure: Error {
        let code: Int32
    }
}
