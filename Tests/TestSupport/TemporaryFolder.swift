import EventLoop
import FoundationEssentials
package import Glibc
import Locking

/// Temporary folders that are removed when the process ends.
package enum TemporaryFolder {
    /// Creates a new folder, in memory if that has room.
    ///
    /// - Parameter mode: The permissions of the folder. PostgreSQL must be able to enter it and does not run as root.
    /// - Throws: ``SystemError``.
    package static func make(mode: mode_t = 0o755) throws -> String {
        var template = Array("\(parent)/push-server-tests.XXXXXX".utf8CString)
        let made = template.withUnsafeMutableBufferPointer { buffer in
            buffer.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) }
        }
        guard let made, chmod(made, mode) == 0 else { throw SystemError(call: "mkdtemp") }
        removeAtExit(made)
        return made
    }

    /// Removes a folder when the process ends.
    package static func removeAtExit(_ folder: String) {
        let isFirst = folders.withLock { folders in
            folders.append(folder)
            return folders.count == 1
        }
        guard isFirst else { return }
        // Programs in the folders end with this process and write until then, so removal is retried for 5 s.
        atexit {
            let folders = TemporaryFolder.folders.withLock { $0 }.map { "'\($0)'" }.joined(separator: " ")
            _ = system("for attempt in $(seq 50); do rm -rf \(folders) 2>/dev/null && break; sleep 0.1; done")
        }
    }

    private static let folders = Locked<[String]>([])

    private static var parent: String { hasMemory ? memory : "/tmp" }

    /// Linux's file system in memory. There, files are flushed, and databases created and dropped, in a fraction of the
    /// time.
    private static let memory = "/dev/shm"
    /// Enough for the databases of all tests. In a container, this file system may have 64 MiB.
    private static let neededBytes = 4 << 30

    private static var hasMemory: Bool {
        var status = statvfs()
        return statvfs(memory, &status) == 0 && access(memory, W_OK) == 0
            && Int(status.f_bavail) * Int(status.f_frsize) >= neededBytes
    }
}

/// Writes a file and returns its path.
@discardableResult
package func writeFile(_ bytes: [UInt8], to path: String) throws -> String {
    try Data(bytes).write(to: URL(filePath: path))
    return path
}
