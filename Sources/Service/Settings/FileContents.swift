import Glibc

/// Reads the small files that settings name.
package enum FileContents {
    /// The size limit in bytes. It is more than any of these files needs, and stops the reading of an endless device.
    private static let maximumBytes = 1 << 20

    /// The reason why a file could not be read.
    package struct Failure: Error {
        /// The `errno` of the call that failed; 0 if the file is too large.
        package let code: Int32

        package init(code: Int32) {
            self.code = code
        }

        /// The reason in words, after a colon; empty if it is unknown.
        package var words: String { code == 0 ? "" : ": \(String(cString: strerror(code)))" }
    }

    /// Returns the text of a file.
    ///
    /// - Throws: ``Failure`` if the file cannot be read or exceeds 1 MiB.
    package static func text(_ path: String) throws(Failure) -> String {
        errno = 0
        guard let bytes = read(path) else { throw Failure(code: errno) }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Returns the bytes of a file, or `nil` if the file cannot be read or exceeds 1 MiB.
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
