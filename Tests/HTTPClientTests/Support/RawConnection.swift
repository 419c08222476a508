import Glibc
import TestSupport

/// A connection that a ``RawServer`` has accepted, with calls that block.
final class RawConnection: @unchecked Sendable {
    // Used by the thread of its script; `shutDown` is safe from any.

    let descriptor: Int32
    /// 1 for the first that the server accepted.
    var number = 0
    private unowned let server: RawServer
    private var buffer: [UInt8] = []
    private var isClosed = false

    init(_ descriptor: Int32, server: RawServer) {
        self.descriptor = descriptor
        self.server = server
    }

    /// Reads one request, head and body, and records it with the server; `nil` at the end of the connection.
    func readRequest() -> RawRequest? {
        guard let head = readHead() else { return nil }
        var request = RawRequest(head: head)
        while buffer.count < request.contentLength {
            guard receive() else { return nil }
        }
        request.body = Array(buffer.prefix(request.contentLength))
        buffer.removeFirst(request.contentLength)
        server.record(request)
        return request
    }

    /// Reads a head up to its empty line; `nil` at the end of the connection.
    func readHead() -> String? {
        while true {
            if let end = buffer.firstRange(of: Array("\r\n\r\n".utf8)) {
                defer { buffer.removeFirst(end.upperBound) }
                return String(decoding: buffer[..<end.lowerBound], as: UTF8.self)
            }
            guard receive() else { return nil }
        }
    }

    /// Waits until what has come and was not read ends with `text`, and leaves it there.
    func waitForUnread(_ text: String) {
        var unread = [UInt8](repeating: 0, count: 64 * 1024)
        var count = 1
        while count > 0, !unread.prefix(count).ends(with: text.utf8) {
            count = recv(descriptor, &unread, unread.count, Int32(MSG_PEEK))
        }
    }

    /// Whether the peer closes within so many milliseconds. For peers that have nothing more to say.
    func hasEnded(within milliseconds: Int32) -> Bool {
        var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&event, 1, milliseconds) != 0
    }

    /// Reads, and forgets, until the peer closes.
    func waitForEnd() {
        while receive() { buffer.removeAll() }
    }

    private func receive() -> Bool {
        var part = [UInt8](repeating: 0, count: 64 * 1024)
        let count = recv(descriptor, &part, part.count, 0)
        guard count > 0 else { return false }
        buffer.append(contentsOf: part[..<count])
        return true
    }

    func write(_ text: String) {
        write(Array(text.utf8))
    }

    /// Writes all of it, unless the peer is gone.
    func write(_ bytes: [UInt8]) {
        _ = sendAll(bytes, to: descriptor)
    }

    /// Answers with a body, and keeps the connection.
    func answer(_ body: String, status: Int = 200, head: String = "") {
        write("HTTP/1.1 \(status) Said\r\nContent-Length: \(body.utf8.count)\r\n\(head)\r\n\(body)")
    }

    /// Ends the connection as a process that dies with unread bytes does: with a reset instead of an end.
    func reset() {
        var linger = Glibc.linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
        close()
    }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        // First, lest `RawServer.stop` shuts down whoever gets the number next.
        server.forget(self)
        _ = Glibc.close(descriptor)
    }

    func shutDown() {
        shutdown(descriptor, Int32(SHUT_RDWR))
    }
}

/// A request as it came over the wire.
struct RawRequest: Sendable {
    /// Without the empty line.
    let head: String
    var body: [UInt8] = []

    var lines: [String] { head.split(separator: "\r\n").map(String.init) }
    var bodyText: String { String(decoding: body, as: UTF8.self) }

    /// The value of a header field; names are compared as they are written.
    func field(_ name: String) -> String? {
        lines.first { $0.hasPrefix("\(name): ") }.map { String($0.dropFirst(name.count + 2)) }
    }

    var contentLength: Int { field("Content-Length").flatMap { Int($0) } ?? 0 }
}

extension ArraySlice<UInt8> {
    fileprivate func ends(with text: String.UTF8View) -> Bool {
        count >= text.count && suffix(text.count).elementsEqual(text)
    }
}
