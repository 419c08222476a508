import Dispatch
import EventLoop
import Glibc
import Locking
import Net
import TestSupport

/// A client that sends raw bytes and parses the responses, over its own blocking socket.
///
/// Blocking calls run on the client's own queues, not on the threads of tasks. A read fails after 20 seconds.
final class RawClient: Sendable {
    /// A response, parsed independently of the server's code.
    struct Answer {
        let status: Int
        let fields: [(name: String, value: String)]
        var body: [UInt8] = []

        var text: String { String(decoding: body, as: UTF8.self) }

        subscript(name: String) -> String? {
            fields.first { $0.name == name.lowercased() }?.value
        }
    }

    struct Malformed: Error {
        let bytes: String
    }

    private let descriptor: FileDescriptor
    private let sending = DispatchQueue(label: "client-send")
    private let receiving = DispatchQueue(label: "client-receive")
    /// Received bytes that are not consumed yet. The closures on `receiving` lock it one after the other.
    private let unread = Locked<[UInt8]>([])

    /// Connects to the loopback address.
    ///
    /// - Parameters:
    ///   - source: The last byte of the client's address, 127.0.0.x.
    ///   - receiveBuffer: The size of the kernel's receive buffer in bytes; `nil` for the kernel's choice.
    init(port: Int, from source: UInt8 = 1, receiveBuffer: Int32? = nil) throws {
        let number = try LoopbackSocket.connect(to: UInt16(port), from: source) { number in
            if var size = receiveBuffer {
                setsockopt(number, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
            }
            LoopbackSocket.setTimeout(seconds: 20, of: number, SO_RCVTIMEO, SO_SNDTIMEO)
        }
        descriptor = FileDescriptor(owning: number)
    }

    /// Sends all of `text`.
    func send(_ text: String) async throws {
        try await send(Array(text.utf8))
    }

    func send(_ bytes: [UInt8]) async throws {
        try await Self.run(on: sending) { [self] in
            guard sendAll(bytes, to: descriptor.rawValue) else { throw SystemError(call: "send") }
        }
    }

    /// Closes the sending side.
    func shutdownWrite() {
        shutdown(descriptor.rawValue, Int32(SHUT_WR))
    }

    /// Whether bytes, or the end of the connection, can be read now.
    var hasInput: Bool {
        var byte: UInt8 = 0
        return recv(descriptor.rawValue, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) >= 0
    }

    /// Sends `head`, then `count` bytes every 20 milliseconds until `gate` is open, then the rest of `total` at once.
    ///
    /// It runs on its own thread, so that waiting tasks cannot delay it. It ends early if the connection does.
    func trickle(_ head: String, _ count: Int, until gate: Gate, of total: Int) async throws {
        try await Self.run(on: sending) { [self] in
            func send(_ bytes: [UInt8]) -> Bool {
                Glibc.send(descriptor.rawValue, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
            }
            var isOpen = send(Array(head.utf8))
            var sent = 0
            while isOpen, !gate.isOpen, sent + count < total {
                isOpen = send([UInt8](repeating: 0x61, count: count))
                sent += count
                usleep(20_000)
            }
            if isOpen { _ = send([UInt8](repeating: 0x61, count: total - sent)) }
        }
    }

    /// Reads and discards at most `count` available bytes.
    func takeSome(_ count: Int) throws {
        var buffer = [UInt8](repeating: 0, count: count)
        guard recv(descriptor.rawValue, &buffer, count, Int32(MSG_DONTWAIT)) >= 0 else {
            throw SystemError(call: "recv")
        }
    }

    /// Makes closing reset the connection, as if the peer crashed.
    func resetOnClose() {
        var value = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor.rawValue, SOL_SOCKET, SO_LINGER, &value, socklen_t(MemoryLayout<linger>.size))
    }

    /// Sends a request and reads its response.
    func exchange(_ request: String) async throws -> Answer {
        try await send(request)
        return try await receive()
    }

    /// Reads one response.
    ///
    /// - Parameter isHead: Whether it is a response to HEAD, which has a length but no body.
    func receive(isHead: Bool = false) async throws -> Answer {
        try await Self.run(on: receiving) { [self] in
            try unread.withLock { unread in
                var head: Range<Int>?
                while true {
                    head = unread.firstRange(of: Array("\r\n\r\n".utf8))
                    guard head == nil else { break }
                    guard try more(&unread) else { throw Malformed(bytes: String(decoding: unread, as: UTF8.self)) }
                }
                guard let head, var answer = Self.parse(unread[..<head.lowerBound]) else {
                    throw Malformed(bytes: String(decoding: unread, as: UTF8.self))
                }
                unread.removeFirst(head.upperBound)
                if answer["transfer-encoding"] == "chunked", !isHead {
                    answer.body = try dechunk(&unread)
                    return answer
                }
                let length = isHead ? 0 : answer["content-length"].flatMap { Int($0) } ?? 0
                while unread.count < length {
                    guard try more(&unread) else { throw Malformed(bytes: "the body is truncated") }
                }
                answer.body = Array(unread[..<length])
                unread.removeFirst(length)
                return answer
            }
        }
    }

    /// Reads the chunks of a body up to and including the last one.
    private func dechunk(_ unread: inout [UInt8]) throws -> [UInt8] {
        let lineEnd = Array("\r\n".utf8)
        var body: [UInt8] = []
        while true {
            var line = unread.firstRange(of: lineEnd)
            while line == nil {
                guard try more(&unread) else { throw Malformed(bytes: "the chunked body is truncated") }
                line = unread.firstRange(of: lineEnd)
            }
            guard let line, let size = Int(String(decoding: unread[..<line.lowerBound], as: UTF8.self), radix: 16)
            else {
                throw Malformed(bytes: String(decoding: unread, as: UTF8.self))
            }
            while unread.count < line.upperBound + size + 2 {
                guard try more(&unread) else { throw Malformed(bytes: "a chunk is truncated") }
            }
            body += unread[line.upperBound..<line.upperBound + size]
            guard unread[(line.upperBound + size)...].starts(with: lineEnd) else {
                throw Malformed(bytes: "a chunk does not end at its declared size")
            }
            unread.removeFirst(line.upperBound + size + 2)
            guard size > 0 else { return body }
        }
    }

    /// Reads until `text` is received, and returns everything up to its end.
    func receive(until text: String) async throws -> String {
        try await Self.run(on: receiving) { [self] in
            try unread.withLock { unread in
                while true {
                    if let found = unread.firstRange(of: Array(text.utf8)) {
                        defer { unread.removeFirst(found.upperBound) }
                        return String(decoding: unread[..<found.upperBound], as: UTF8.self)
                    }
                    guard try more(&unread) else { throw Malformed(bytes: String(decoding: unread, as: UTF8.self)) }
                }
            }
        }
    }

    /// Reads until the server closes, and returns the bytes before the end. A reset is an error.
    func receiveToEnd() async throws -> String {
        try await Self.run(on: receiving) { [self] in
            try unread.withLock { unread in
                while try more(&unread) {}
                defer { unread = [] }
                return String(decoding: unread, as: UTF8.self)
            }
        }
    }

    /// Reads once. Returns `false` at the end of the connection.
    private func more(_ unread: inout [UInt8]) throws -> Bool {
        var buffer = [UInt8](repeating: 0, count: 64 * 1024)
        let count = recv(descriptor.rawValue, &buffer, buffer.count, 0)
        guard count >= 0 else { throw SystemError(call: "recv") }
        unread += buffer[..<count]
        return count > 0
    }

    private static func parse(_ head: ArraySlice<UInt8>) -> Answer? {
        let lines = String(decoding: head, as: UTF8.self).split(separator: "\r\n", omittingEmptySubsequences: false)
        let words = lines[0].split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        guard words.count == 3, words[0] == "HTTP/1.1", let status = Int(words[1]) else { return nil }
        let fields = lines.dropFirst().map { line in
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            return (name: parts[0].lowercased(), value: String(parts.last?.drop { $0 == " " } ?? ""))
        }
        return Answer(status: status, fields: fields)
    }

    private static func run<Value: Sendable>(
        on queue: DispatchQueue,
        _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result { try body() }) }
        }
    }
}
