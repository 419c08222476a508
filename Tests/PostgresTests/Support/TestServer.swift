import Glibc
import Locking
import PrivatePostgres

/// The PostgreSQL that tests use: the one of `TEST_POSTGRES_URL`, or a private one that is started when the first test
/// wants it and goes away with the process.
enum TestServer {
    /// Tests with connections of their own that run at once: a server admits a hundred clients.
    static let gate = Gate(width: 8)

    static var url: String {
        get async throws { try await started.value }
    }

    private static let started = Task.detached {
        if let url = getenv("TEST_POSTGRES_URL") { return String(cString: url) }
        return try await PostgresCluster(directory: try temporaryDirectory()).start()
    }

    /// A place for a cluster, which is removed when the process ends.
    static func temporaryDirectory() throws -> String {
        let made = try temporaryDirectory(mode: 0o755)
        return "\(made)/postgres"
    }

    /// A new directory, which is removed when the process ends.
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
            leftovers.append(directory)
            return leftovers.count == 1
        }
        guard isFirst else { return }
        // The servers end with us, as their clusters promise. Until they have, they write.
        atexit {
            for directory in TestServer.leftovers.withLock({ $0 }) {
                _ = system("for attempt in $(seq 50); do rm -rf '\(directory)' 2>/dev/null && break; sleep 0.1; done")
            }
        }
    }

    private static let leftovers = Locked<[String]>([])

    private struct NoDirectory: Error {
        let code: Int32
    }
}
