import FoundationEssentials
import Glibc
import Locking

/// Where the repository is, and files of the tests' own.
enum TestFiles {
    /// The folder of the package that these tests are of.
    static let repository = {
        let folders = #filePath.split(separator: "/").dropLast(4)
        return "/\(folders.joined(separator: "/"))"
    }()
    static let migrations = "\(repository)/migrations"

    /// A program of the package, built beside these tests.
    static func program(_ name: String) throws -> String {
        var buffer = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        guard count > 0 else { throw Failure(call: "readlink", code: errno) }
        let own = String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return "\(own[..<(own.lastIndex(of: "/") ?? own.endIndex)])/\(name)"
    }

    /// A new folder, which is removed when the process ends.
    static func temporaryFolder() throws -> String {
        var template = Array("/tmp/push-service-tests.XXXXXX".utf8CString)
        let made = template.withUnsafeMutableBufferPointer { buffer in
            buffer.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) }
        }
        guard let made, chmod(made, 0o755) == 0 else { throw Failure(call: "mkdtemp", code: errno) }
        let isFirst = folders.withLock { folders in
            folders.append(made)
            return folders.count == 1
        }
        // What runs in them ends with this process; what is left to do is to clean up.
        if isFirst {
            atexit {
                for folder in TestFiles.folders.withLock({ $0 }) { _ = system("rm -rf '\(folder)'") }
            }
        }
        return made
    }

    /// Writes a file.
    static func write(_ bytes: [UInt8], to path: String) throws {
        try Data(bytes).write(to: URL(filePath: path))
    }

    private static let folders = Locked<[String]>([])

    private struct Failure: Error {
        let call: String
        let code: Int32
    }
}
