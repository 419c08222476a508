import EventLoop
import FoundationEssentials
package import Glibc
import Locking

/// Temporary folders that are removed when the process ends.
package enum TemporaryFolder {
    /// Creates a new folder.
    ///
    /// - Parameters:
    ///   - parent: The folder that is to contain it.
    ///   - mode: The permissions of the folder. PostgreSQL must be able to enter it and does not run as root.
    /// - Throws: ``SystemError``.
    package static func make(in parent: String = "/tmp", mode: mode_t = 0o755) throws -> String {
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
            for folder in TemporaryFolder.folders.withLock({ $0 }) {
                _ = system("for attempt in $(seq 50); do rm -rf '\(folder)' 2>/dev/null && break; sleep 0.1; done")
            }
        }
    }

    private static let folders = Locked<[String]>([])
}

/// Writes a file and returns its path.
@discardableResult
package func writeFile(_ bytes: [UInt8], to path: String) throws -> String {
    try Data(bytes).write(to: URL(filePath: path))
    return path
}
