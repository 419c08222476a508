import CLinux
import EventLoop
import Glibc
import Net

/// A socket that accepts connections for one loop.
final class Listener {
    private var descriptor: FileDescriptor?
    private var registration: Registration?
    /// Whether the socket remains when the process ends: its service manager has it, and passes it to the next process.
    let remains: Bool

    init(_ descriptor: consuming FileDescriptor, remains: Bool) {
        self.descriptor = consume descriptor
        self.remains = remains
    }

    /// Calls `accept` on the loop each time connections wait.
    ///
    /// - Throws: ``SystemError`` if the loop cannot watch the socket.
    func start(on loop: EventLoop, _ accept: @escaping () -> Void) throws {
        guard let number = descriptor?.rawValue else { return }
        registration = try loop.register(number, interest: .read) { _ in accept() }
    }

    func setAccepting(_ accepts: Bool, on loop: EventLoop) {
        guard let registration else { return }
        loop.setInterest(accepts ? .read : [], of: registration)
    }

    func close(on loop: EventLoop) {
        loop.deregister(registration.take())
        descriptor = nil
    }

    /// Whether a connection waits to be accepted.
    var hasWaiting: Bool {
        guard let number = descriptor?.rawValue else { return false }
        var listener = pollfd(fd: number, events: Int16(POLLIN), revents: 0)
        return poll(&listener, 1, 0) == 1
    }

    /// Takes the next connection.
    ///
    /// - Throws: ``SystemError``, with `EAGAIN` if no connection waits.
    func accept() throws(SystemError) -> AcceptedSocket {
        guard let listener = descriptor?.rawValue else { throw SystemError(call: "accept4", code: EAGAIN) }
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let number = withUnsafeMutablePointer(to: &storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                accept4(listener, $0, &length, Int32(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue))
            }
        }
        guard number >= 0 else { throw SystemError(call: "accept4") }
        return AcceptedSocket(descriptor: FileDescriptor(owning: number), address: SocketAddress(storage))
    }
}

/// An accepted socket that has no connection yet.
final class AcceptedSocket: @unchecked Sendable {
    // Used on one loop at a time: the one that accepted it, then the one that it is passed to. The socket is closed with
    // this object.
    private var descriptor: FileDescriptor?
    let address: SocketAddress

    init(descriptor: consuming FileDescriptor, address: SocketAddress) {
        self.descriptor = consume descriptor
        self.address = address
    }

    func takeDescriptor() -> FileDescriptor? { descriptor.take() }
}
