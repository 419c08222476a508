import EventLoop
import Glibc

/// A listening socket whose queue is full, so that the kernel answers no further connection.
package final class SilentListener {
    package let port: UInt16
    private var descriptors: [Int32] = []

    /// - Throws: ``SystemError``.
    package init() throws {
        let (listener, port) = try LoopbackSocket.listen(backlog: 0)
        self.port = port
        descriptors.append(listener)
        // A queue of length 0 holds one connection. More are tried, in case that the kernel is generous.
        for _ in 0..<8 {
            let client = try LoopbackSocket.connecting(to: port)
            descriptors.append(client)
        }
    }

    deinit {
        for descriptor in descriptors { close(descriptor) }
    }
}
