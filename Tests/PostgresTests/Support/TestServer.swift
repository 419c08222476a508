import Glibc
import PrivatePostgres
import Synchronization

/// The PostgreSQL that tests use: the one of `TEST_POSTGRES_URL`, or a private one that is started when the first test wants it and
/// goes away with the process.
enum TestServer {
    static var url: String {
        get async throws { try await started.value }
    }

    private static let started = Task.detached {
        if let url = getenv("TEST_POSTGRES_URL") { return String(cString: url) }
        let cluster = PostgresCluster(directory: try temporaryDirectory(), settings: ["max_connections": "200"])
        let url = try await cluster.start()
        leftovers.withLock { $0.cluster = cluster }
        return url
    }

    /// A new directory, which is removed when the process ends, and what stands in for it elsewhere.
    static func temporaryDirectory() throws -> String {
        let made = try temporaryDirectory(mode: 0o755)
        return "\(made)/postgres"
    }

    static func temporaryDirectory(mode: mode_t) throws -> String {
        var template = Array("/tmp/push-server-tests.XXXXXX".utf8CString)
        let made = template.withUnsafeMutableBufferPointer { buffer in
            buffer.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) }
        }
        guard let made, chmod(made, mode) == 0 else { throw NoDirectory(code: errno) }
        removeAtExit(made)
        return made
    }

    /// Has a directory removed when the process ends.
    static func removeAtExit(_ directory: String) {
        let isFirst = leftovers.withLock { leftovers in
            leftovers.directories.append(directory)
            return leftovers.directories.count == 1
        }
        guard isFirst else { return }
        // The servers themselves end with us, as their clusters promise: what is left to do is to wait, and to clean up.
        atexit {
            for directory in TestServer.leftovers.withLock({ $0.directories }) {
                _ = system("rm -rf '\(directory)'")
            }
        }
    }

    private struct Leftovers {
        var directories: [String] = []
        var cluster: PostgresCluster?
    }

    private static let leftovers = Mutex(Leftovers())

    private struct NoDirectory: Error {
        let code: Int32
    }
}
