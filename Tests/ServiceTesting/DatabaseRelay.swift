import Dispatch
import EventLoop
import Glibc
import Locking
import TestSupport

/// A relay between a server and PostgreSQL, which can drop the responses on request.
package final class DatabaseRelay: Sendable {
    private struct State {
        var losesAnswers = false
        var isClosed = false
        var sockets: Set<Int32> = []
    }

    /// The database's URL with the relay's address instead of PostgreSQL's.
    package let url: String
    private let listener: Int32
    private let state = Locked(State())

    /// - Parameter url: A database URL with PostgreSQL's socket directory as `host` in its query.
    package init(to url: String) throws {
        let query = url.split(separator: "?", maxSplits: 1).dropFirst().first ?? ""
        func parameter(_ name: String) -> String? {
            query.split(separator: "&").first { $0.hasPrefix("\(name)=") }.map { String($0.dropFirst(name.count + 1)) }
        }
        guard let host = parameter("host") else { throw Failure(call: "no socket directory in \(url)", code: 0) }
        let path = "\(Self.decoded(host))/.s.PGSQL.\(parameter("port") ?? "5432")"
        let (listener, own) = try LoopbackSocket.listen()
        self.listener = listener
        let base = url.split(separator: "?", maxSplits: 1)[0]
        self.url = "\(base)?host=127.0.0.1&port=\(own)&sslmode=disable"
        let state = state
        // Separate threads, since these calls block.
        startThread {
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { break }
                Self.relay(client, path, state)
            }
            close(listener)
        }
    }

    /// Drops PostgreSQL's responses from now on, so that commits happen without the server's knowledge.
    package func loseAnswers() {
        state.withLock { $0.losesAnswers = true }
    }

    /// Closes all connections. Later ones are relayed completely.
    package func reset() {
        state.withLock { state in
            state.losesAnswers = false
            for socket in state.sockets { shutdown(socket, Int32(SHUT_RDWR)) }
        }
    }

    package func stop() {
        reset()
        shutdown(listener, Int32(SHUT_RDWR))
    }

    private static func relay(_ client: Int32, _ path: String, _ state: Locked<State>) {
        let server = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(server, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
        guard isConnected else {
            close(client)
            close(server)
            return
        }
        state.withLock { $0.sockets.formUnion([client, server]) }
        let ends = Locked(2)
        let end: @Sendable () -> Void = {
            shutdown(client, Int32(SHUT_RDWR))
            shutdown(server, Int32(SHUT_RDWR))
            let isLast = ends.withLock { ends in
                ends -= 1
                return ends == 0
            }
            guard isLast else { return }
            state.withLock { $0.sockets.subtract([client, server]) }
            close(client)
            close(server)
        }
        startThread {
            pump(from: client, to: server) { true }
            end()
        }
        startThread {
            pump(from: server, to: client) { state.withLock { !$0.losesAnswers } }
            end()
        }
    }

    private static func pump(from source: Int32, to target: Int32, passes: () -> Bool) {
        var buffer = [UInt8](repeating: 0, count: 64 * 1024)
        while true {
            let count = recv(source, &buffer, buffer.count, 0)
            guard count > 0 else { return }
            guard passes() else { continue }
            guard sendAll(buffer[..<count], to: target) else { return }
        }
    }

    private static func decoded(_ text: String) -> String {
        text.split(separator: "%2F", omittingEmptySubsequences: false).joined(separator: "/")
    }

    private struct Failure: Error {
        let call: String
        let code: Int32
    }
}
