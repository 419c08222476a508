import EventLoop
import Glibc

/// The server's end of a connection on this machine, as listed by the kernel.
package struct ServerSocket {
    /// The number of received bytes that the server has not read.
    package let unread: Int

    /// Returns the sockets of connections to `port` that a process holds, without the listener.
    ///
    /// - Throws: ``SystemError``.
    package static func all(port: Int) throws -> [ServerSocket] {
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
