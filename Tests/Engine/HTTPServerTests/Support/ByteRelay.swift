import Dispatch
import EventLoop
import Glibc
import TestSupport

/// Relays one connection to a server and forwards the client's bytes one at a time.
final class ByteRelay: Sendable {
    let port: Int
    private let listener: FileDescriptor
    private let server: Int

    /// - Parameter server: The port of the server.
    init(to server: Int) throws {
        let (number, port) = try LoopbackSocket.listen(backlog: 1)
        listener = FileDescriptor(owning: number)
        self.port = Int(port)
        self.server = server
    }

    /// Relays one connection until either side ends it.
    func start() {
        DispatchQueue(label: "relay").async { [self] in
            let client = accept(listener.rawValue, nil, nil)
            guard client >= 0 else { return }
            defer { close(client) }
            guard let server = try? LoopbackSocket.connect(to: UInt16(self.server)) else { return }
            defer { close(server) }
            relay(client, server)
        }
    }

    private func relay(_ client: Int32, _ server: Int32) {
        var waits = [
            pollfd(fd: client, events: Int16(POLLIN), revents: 0),
            pollfd(fd: server, events: Int16(POLLIN), revents: 0),
        ]
        var buffer = [UInt8](repeating: 0, count: 16 * 1024)
        while poll(&waits, 2, 20_000) > 0 {
            if waits[0].revents != 0 {
                let count = read(client, &buffer, buffer.count)
                guard count > 0 else { return }
                for index in 0..<count { send(server, &buffer[index], 1, Int32(MSG_NOSIGNAL)) }
            }
            if waits[1].revents != 0 {
                let count = read(server, &buffer, buffer.count)
                guard count > 0 else { return }
                send(client, &buffer, count, Int32(MSG_NOSIGNAL))
            }
        }
    }
}
