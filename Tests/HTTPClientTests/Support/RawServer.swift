import Glibc
import Locking
import TestSupport

/// A server on loopback that does what a test tells it to, byte by byte: each connection runs the test's script on a
/// thread of its own.
final class RawServer: Sendable {
    private struct Journal {
        var requests: [RawRequest] = []
        var open: [Int32: RawConnection] = [:]
        var connectionCount = 0
        var isStopped = false
        /// Threads that run for this server: the one that accepts is the first.
        var threadCount = 1
    }

    let port: UInt16
    private let listener: Int32
    private let journal = Locked(Journal())
    private let script: @Sendable (RawConnection) -> Void
    private let ended = Signal()

    /// Listens on a port of the kernel's choice.
    init(_ script: @escaping @Sendable (RawConnection) -> Void) throws {
        self.script = script
        (listener, port) = try LoopbackSocket.listen(backlog: 512)
        startThread { self.accept() }
    }

    /// The URL of a path here.
    func url(_ path: String = "/") -> String {
        "http://127.0.0.1:\(port)\(path)"
    }

    /// The requests that were read, in the order in which they were complete.
    var requests: [RawRequest] { journal.withLock { $0.requests } }
    /// The connections that were accepted.
    var connectionCount: Int { journal.withLock { $0.connectionCount } }

    /// Ends every connection, and takes no more.
    func stop() {
        journal.withLock { journal in
            guard !journal.isStopped else { return }
            journal.isStopped = true
            for connection in journal.open.values { connection.shutDown() }
            shutdown(listener, Int32(SHUT_RDWR))
        }
    }

    /// Waits until everything is closed, after ``stop()``.
    func waitForEnd() async {
        await ended.wait()
    }

    func record(_ request: RawRequest) {
        journal.withLock { $0.requests.append(request) }
    }

    private func accept() {
        while true {
            let descriptor = Glibc.accept(listener, nil, nil)
            guard descriptor >= 0 else { break }
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            let connection = RawConnection(descriptor, server: self)
            let isWelcome = journal.withLock { journal in
                guard !journal.isStopped else { return false }
                journal.connectionCount += 1
                journal.threadCount += 1
                connection.number = journal.connectionCount
                journal.open[descriptor] = connection
                return true
            }
            guard isWelcome else {
                connection.close()
                break
            }
            startThread { self.serve(connection) }
        }
        close(listener)
        endThread()
    }

    private func serve(_ connection: RawConnection) {
        script(connection)
        connection.close()
        endThread()
    }

    private func endThread() {
        let isLast = journal.withLock { journal in
            journal.threadCount -= 1
            return journal.threadCount == 0
        }
        if isLast { ended.fire() }
    }

    func forget(_ connection: RawConnection) {
        _ = journal.withLock { $0.open.removeValue(forKey: connection.descriptor) }
    }
}
