import EventLoop
import Net

/// A listener of a proxy, on 127.0.0.1 and a port that the kernel chooses.
final class ProxyListener {
    // Used only on the proxy's loop.

    let port: Int
    private let loop: EventLoop
    private let descriptor: FileDescriptor
    private var registration: Registration?

    init(loop: EventLoop) throws {
        self.loop = loop
        descriptor = try .listening(on: "127.0.0.1", port: 0)
        port = try descriptor.boundPort()
    }

    /// Begins to accept connections, and calls `body` with each.
    func start(_ body: @escaping (consuming FileDescriptor) -> Void) {
        let listener = descriptor.rawValue
        registration = try? loop.register(listener, interest: .read) { _ in
            while let client = Socket.accept(listener) { body(client) }
        }
    }

    /// Stops accepting connections.
    func stop() {
        if let registration { loop.deregister(registration) }
        registration = nil
    }
}
