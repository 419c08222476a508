import Glibc
import Locking
import TestSupport

/// A loopback server that is scripted byte by byte. Each connection runs the test's script on its own thread.
final class RawServer: Sendable {
    private struct Journal {
        var requests: [RawRequest] = []
        var open: [Int32: RawConnection] = [:]
        var connectionCount = 0
        var isStopped = false
        /// The number of threads of this server, including the accepting one.
        var threadCount = 1
    }

    let port: UInt16
    private let listener: Int32
    private let journal = Locked(Journal())
    private let script: @Sendable (RawConnection) -> Void
    private let ended = Signal()

    /// Creates a server on a port chosen by the kernel.
    init(_ script: @escaping @Sendable (RawConnection) -> Void) throws {
        self.script = script
        (listener, port) = try LoopbackSocket.listen(backlog: 512)
        startThread { self.accept() }
    }

    /// Returns the URL of a path on this server.
    func url(_ path: String = "/") -> String {
        "http://127.0.0.1:\(port)\(path)"
    }

    /// The received requests, in the order in which they were complete.
    var requests: [RawRequest] { journal.withLock { $0.requests } }
    /// The number of accepted connections.
    var connectionCount: Int { journal.withLock { $0.connectionCount } }

    /// Ends every connection and accepts no more.
    func stop() {
        journal.withLock { journal in
            guard !journal.isStopped else { return }
            journal.isStopped = true
            for connection in journal.open.values { connection.shutDown() }
            shutdown(listener, Int32(SHUT_RDWR))
        }
    }

    /// Waits until everything is closed. Call ``stop()`` before it.
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
