package import EventLoop
import Glibc

/// The system calls of a journal that can fail or hang because of the disk. Tests replace them.
package struct FileOperations: Sendable {
    /// Reserves the first `length` bytes of a file, which read as zeros.
    package var allocate: @Sendable (_ descriptor: Int32, _ length: Int) throws(SystemError) -> Void
    /// Writes all bytes at an offset.
    package var write: @Sendable (_ descriptor: Int32, _ bytes: [UInt8], _ offset: Int) throws(SystemError) -> Void
    /// Flushes written data and returns when it is on disk.
    package var sync: @Sendable (_ descriptor: Int32) throws(SystemError) -> Void
    /// Reads up to `count` bytes at an offset. Returns none at the end of the file.
    package var read: @Sendable (_ descriptor: Int32, _ count: Int, _ offset: Int) throws(SystemError) -> [UInt8]

    package static let system = FileOperations(
        allocate: { descriptor, length throws(SystemError) in
            let code = posix_fallocate(descriptor, 0, length)
            guard code == 0 else { throw SystemError(call: "posix_fallocate", code: code) }
        },
        write: { descriptor, bytes, offset throws(SystemError) in
            var written = 0
            while written < bytes.count {
                let count = bytes.withUnsafeBytes { buffer in
                    pwrite(
                        descriptor,
                        buffer.baseAddress.map { $0 + written },
                        buffer.count - written,
                        offset + written
                    )
                }
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { throw SystemError(call: "pwrite", code: count < 0 ? errno : EIO) }
                written += count
            }
        },
        sync: { descriptor throws(SystemError) in
            guard fdatasync(descriptor) == 0 else { throw SystemError(call: "fdatasync") }
        },
        read: { descriptor, count, offset throws(SystemError) in
            var code: Int32 = 0
            let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
                var result: Int
                repeat {
                    result = pread(descriptor, buffer.baseAddress, count, offset)
                } while result < 0 && errno == EINTR
                if result < 0 { code = errno }
                filled = max(result, 0)
            }
            guard code == 0 else { throw SystemError(call: "pread", code: code) }
            return bytes
        }
    )

    package init(
        allocate: @escaping @Sendable (_ descriptor: Int32, _ length: Int) throws(SystemError) -> Void,
        write: @escaping @Sendable (_ descriptor: Int32, _ bytes: [UInt8], _ offset: Int) throws(SystemError) -> Void,
        sync: @escaping @Sendable (_ descriptor: Int32) throws(SystemError) -> Void,
        read: @escaping @Sendable (_ descriptor: Int32, _ count: Int, _ offset: Int) throws(SystemError) -> [UInt8]
    ) {
        self.allocate = allocate
        self.write = write
        self.sync = sync
        self.read = read
    }
}
