internal import Glibc

/// Reads the small files that settings name.
package enum FileContents {
    /// More than any of them needs; who names a device by mistake is told so.
    private static let maximumBytes = 1 << 20

    /// The bytes of a file of at most 1 MiB, or `nil` when it cannot be read.
    package static func read(_ path: String) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 * 1024)
        while bytes.count <= maximumBytes {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count == 0 { return bytes }
            if count < 0 && errno != EINTR { return nil }
            bytes += buffer[..<max(count, 0)]
        }
        return nil
    }
}
