import CLinux
package import EventLoop
import Glibc

/// Connects to the first of several addresses that answers, as RFC 8305 ("Happy Eyeballs") says.
///
/// The addresses are tried in their order, but the families alternate. The next one is tried when one has failed, or has not
/// answered within 250 ms. The first connection is kept, and the others are closed.
///
/// Confined to its loop.
package final class Dialer {
    /// The time that an address has before the next one is tried too (RFC 8305 §8).
    private static let attemptDelay = Duration.milliseconds(250)

    private final class Attempt {
        let address: SocketAddress
        var descriptor: FileDescriptor?
        let socket: Int32
        var registration: Registration?

        init(_ descriptor: consuming FileDescriptor, to address: SocketAddress) {
            self.address = address
            socket = descriptor.rawValue
            self.descriptor = consume descriptor
        }
    }

    private let loop: EventLoop
    private var addresses: ArraySlice<SocketAddress>
    private var attempts: [Attempt] = []
    private var timer: TimerID?
    /// Why the last address failed.
    private var failure = SystemError(call: "connect", code: EHOSTUNREACH)
    private var onEnd: ((_ descriptor: consuming FileDescriptor?, _ failure: SystemError) -> Void)?

    /// - Parameters:
    ///   - addresses: With ports, best first.
    ///   - onEnd: Called once on the loop, not before ``start()`` has returned, with the connected socket, or with `nil`
    ///     and the reason why the last address could not be reached. Not called after ``cancel()``.
    package init(
        to addresses: [SocketAddress],
        loop: EventLoop,
        onEnd: @escaping (_ descriptor: consuming FileDescriptor?, _ failure: SystemError) -> Void
    ) {
        self.loop = loop
        self.addresses = Self.alternating(addresses)[...]
        self.onEnd = onEnd
    }

    /// Returns the addresses with the families in turn, beginning with the family of the first (RFC 8305 §4).
    static func alternating(_ addresses: [SocketAddress]) -> [SocketAddress] {
        guard let first = addresses.first else { return [] }
        let preferred = addresses.filter { $0.isV6 == first.isV6 }
        let others = addresses.filter { $0.isV6 != first.isV6 }
        var result: [SocketAddress] = []
        for index in 0..<max(preferred.count, others.count) {
            if index < preferred.count { result.append(preferred[index]) }
            if index < others.count { result.append(others[index]) }
        }
        return result
    }

    /// Starts to connect to the first address.
    package func start() {
        tryNext()
    }

    /// Closes all sockets. ``onEnd`` is not called any more.
    package func cancel() {
        onEnd = nil
        closeAttempts()
    }

    private func tryNext() {
        loop.cancel(timer.take())
        guard let address = addresses.popFirst() else {
            if attempts.isEmpty { timer = loop.schedule(after: .zero) { [self] in complete(with: nil) } }
            return
        }
        do {
            attempts.append(try startAttempt(to: address))
        } catch {
            failure = error
            return tryNext()
        }
        if !addresses.isEmpty { timer = loop.schedule(after: Self.attemptDelay) { [self] in tryNext() } }
    }

    private func startAttempt(to address: SocketAddress) throws(SystemError) -> Attempt {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let number = socket(address.isV6 ? AF_INET6 : AF_INET, type, 0)
        guard number >= 0 else { throw SystemError(call: "socket") }
        let attempt = Attempt(FileDescriptor(owning: number), to: address)
        // A request leaves in one `send`, so waiting to fill a packet would only delay it (Nagle's algorithm).
        var one: Int32 = 1
        setsockopt(number, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
        let result = address.withKernelForm { connect(number, $0, $1) }
        guard result == 0 || errno == EINPROGRESS || errno == EINTR else { throw SystemError(call: "connect") }
        do {
            // Also if it is connected already: the event comes at once.
            attempt.registration = try loop.register(number, interest: .write) { [self] _ in ended(attempt) }
        } catch {
            throw error as? SystemError ?? SystemError(call: "epoll_ctl", code: ENOMEM)
        }
        return attempt
    }

    private func ended(_ attempt: Attempt) {
        var code: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(attempt.socket, SOL_SOCKET, SO_ERROR, &code, &length)
        loop.deregister(attempt.registration)
        attempts.removeAll { $0 === attempt }
        guard code != 0 else { return complete(with: attempt) }
        failure = SystemError(call: "connect", code: code)
        tryNext()
    }

    private func complete(with attempt: Attempt?) {
        closeAttempts()
        guard let onEnd else { return }
        self.onEnd = nil
        guard let attempt, let descriptor = attempt.descriptor.take() else { return onEnd(nil, failure) }
        onEnd(descriptor, failure)
    }

    private func closeAttempts() {
        loop.cancel(timer.take())
        for attempt in attempts {
            loop.deregister(attempt.registration)
            attempt.descriptor = nil
        }
        attempts = []
    }
}
