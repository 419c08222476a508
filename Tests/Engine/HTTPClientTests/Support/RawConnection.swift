import Glibc
import TestSupport

/// A connection accepted by a ``RawServer``, with blocking calls.
final class RawConnection: @unchecked Sendable {
    // Used by the thread of its script; `shutDown` may be called from any thread.

    let descriptor: Int32
    /// The number of the connection on its server, starting at 1.
    var number = 0
    private unowned let server: RawServer
    private var buffer: [UInt8] = []
    private var isClosed = false

    init(_ descriptor: Int32, server: RawServer) {
        self.descriptor = descriptor
        self.server = server
    }

    /// Reads and records one request, head and body. Returns `nil` at the end of the connection.
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

    /// Reads a head up to its empty line. Returns `nil` at the end of the connection.
    func readHead() -> String? {
        while true {
            if let end = buffer.firstRange(of: Array("\r\n\r\n".utf8)) {
                defer { buffer.removeFirst(end.upperBound) }
                return String(decoding: buffer[..<end.lowerBound], as: UTF8.self)
            }
            guard receive() else { return nil }
        }
    }

    /// Returns whether there is room to write within `milliseconds`.
    func canWrite(within milliseconds: Int32) -> Bool {
        var event = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&event, 1, milliseconds) != 0
    }

    /// Waits until the unread bytes end with `text`, and leaves them unread.
    func waitForUnread(_ text: String) {
        var unread = [UInt8](repeating: 0, count: 64 * 1024)
        var count = 1
        while count > 0, !unread.prefix(count).ends(with: text.utf8) {
            count = recv(descriptor, &unread, unread.count, Int32(MSG_PEEK))
        }
    }

    /// Returns whether the peer closes within `milliseconds`. Only for peers that send no more bytes.
    func hasEnded(within milliseconds: Int32) -> Bool {
        var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&event, 1, milliseconds) != 0
    }

    /// Reads and discards bytes until the peer closes.
    func waitForEnd() {
        while receive() { buffer.removeAll() }
    }

    /// Copies bytes in both directions between the peer and a port of this machine, until either side closes.
    func relay(to port: UInt16) {
        guard let other = try? LoopbackSocket.connect(to: port) else { return }
        defer { _ = Glibc.close(other) }
        guard sendAll(buffer, to: other) else { return }
        var events = [descriptor, other].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        var part = [UInt8](repeating: 0, count: 64 * 1024)
        while poll(&events, 2, -1) > 0 {
            for (index, target) in [other, descriptor].enumerated() where events[index].revents != 0 {
                let count = recv(events[index].fd, &part, part.count, 0)
                guard count > 0, sendAll(part[..<count], to: target) else { return }
            }
        }
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

    /// Writes all bytes, unless the peer has closed.
    func write(_ bytes: [UInt8]) {
        _ = sendAll(bytes, to: descriptor)
    }

    /// Sends a response with a body and keeps the connection open.
    func answer(_ body: String, status: Int = 200, head: String = "") {
        write("HTTP/1.1 \(status) Said\r\nContent-Length: \(body.utf8.count)\r\n\(head)\r\n\(body)")
    }

    /// Ends the connection with a reset, like a process that dies with unread bytes.
    func reset() {
        var linger = Glibc.linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
        close()
    }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        // Before closing, so that `RawServer.stop` cannot shut down another descriptor with the same number.
        server.forget(self)
        _ = Glibc.close(descriptor)
    }

    func shutDown() {
        shutdown(descriptor, Int32(SHUT_RDWR))
    }
}

/// A request as received over the wire.
struct RawRequest: Sendable {
    /// The head without the empty line.
    let head: String
    var body: [UInt8] = []

    var lines: [String] { head.split(separator: "\r\n").map(String.init) }
    var bodyText: String { String(decoding: body, as: UTF8.self) }

    /// Returns the value of a header field. Names are compared with case.
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
