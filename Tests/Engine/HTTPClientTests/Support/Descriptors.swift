import Glibc

/// The open descriptors of this process.
enum Descriptors {
    /// Returns whether a socket of this process is connected to a local port and has not been notified that its peer
    /// closed.
    static func hasOpenSocket(to port: UInt16) -> Bool {
        all.contains { descriptor in
            guard peerPort(descriptor) == port else { return false }
            var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            return poll(&event, 1, 0) == 0
        }
    }

    /// The number of descriptors, without the timers that Dispatch opens at any time.
    static var countOfOurs: Int {
        all.count { descriptor in
            var target = [CChar](repeating: 0, count: 64)
            let count = readlink("/proc/self/fd/\(descriptor)", &target, target.count)
            let name = target.prefix(max(0, count)).map { UInt8(bitPattern: $0) }
            return String(decoding: name, as: UTF8.self) != "anon_inode:[timerfd]"
        }
    }

    /// All descriptors of this process.
    static var all: [Int32] {
        guard let folder = opendir("/proc/self/fd") else { return [] }
        defer { closedir(folder) }
        var descriptors: [Int32] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if let descriptor = Int32(name), descriptor != dirfd(folder) { descriptors.append(descriptor) }
        }
        return descriptors
    }

    private static func peerPort(_ descriptor: Int32) -> UInt16? {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &length) }
        }
        guard result == 0, address.sin_family == sa_family_t(AF_INET) else { return nil }
        return UInt16(bigEndian: address.sin_port)
    }
}
