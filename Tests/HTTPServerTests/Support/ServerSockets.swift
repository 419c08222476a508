import EventLoop
import Glibc
import TestSupport
import Testing

/// The server's end of a connection, as listed by the kernel.
struct ServerSocket {
    /// The number of received bytes that the server has not read.
    let unread: Int

    /// Returns the sockets of connections to `port` that a process holds, without the listener.
    static func all(port: Int) throws -> [ServerSocket] {
        let suffix = Array(String(port + 0x10000, radix: 16, uppercase: true).utf8.dropFirst())
        return try contents(of: "/proc/self/net/tcp").split(separator: UInt8(ascii: "\n")).compactMap { line in
            // Number, colon, space, local address of eight digits, colon and port. Compared as bytes, because after a
            // while the kernel lists thousands of closed connections.
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")), line.endIndex > colon + 15,
                line[(colon + 11)..<(colon + 15)].elementsEqual(suffix)
            else { return nil }
            let columns = String(decoding: line, as: UTF8.self).split(separator: " ")
            // State (0A: listening), queues, and inode (0: no process holds the socket).
            guard columns.count > 9, columns[3] != "0A", columns[9] != "0" else { return nil }
            return ServerSocket(unread: columns[4].split(separator: ":").last.flatMap { Int($0, radix: 16) } ?? 0)
        }
    }
}

extension TestServer {
    /// Waits until the server has read all bytes sent to it.
    func waitUntilAllIsRead() async throws {
        try await eventually("the server has read everything") {
            try ServerSocket.all(port: port).allSatisfy { $0.unread == 0 }
        }
    }

    /// Waits until at most `count` connections are open.
    func waitForConnections(atMost count: Int) async throws {
        try await eventually("at most \(count) connections are open") {
            try ServerSocket.all(port: port).count <= count
        }
    }
}

private func contents(of path: String) throws -> [UInt8] {
    let number = open(path, O_RDONLY | O_CLOEXEC)
    guard number >= 0 else { throw SystemError(call: "open(\(path))") }
    let descriptor = FileDescriptor(owning: number)
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 64 * 1024)
    while true {
        let count = read(descriptor.rawValue, &buffer, buffer.count)
        guard count > 0 else { break }
        bytes += buffer[..<count]
    }
    return bytes
}
