internal import CLibcurl
internal import EventLoop
internal import Glibc

/// libcurl's sockets as its loop sees them: opened and closed here, waited on as libcurl asks.
///
/// They are numbers and not ``FileDescriptor``s, for their owner is libcurl. The house's rule is to deregister first
/// and close last. libcurl closes a connection when it sees fit, long after the request that made it; so that goes
/// through ``close(_:)``, which looks. Only a socket that never came to be connected is closed by libcurl itself,
/// before it says that it need not be watched (7.88, `cf_socket_close`); ``open(_:)`` and ``watch(_:for:)`` allow for
/// that.
final class CurlSockets {
    private struct Watch {
        let registration: Registration
        /// In libcurl's words.
        let wanted: Int32
    }

    private let loop: EventLoop
    private let onReady: (Int32, Int32) -> Void
    private var watches: [Int32: Watch] = [:]

    /// - Parameter onReady: Called on the loop with a socket that is ready, and libcurl's word for what it is ready
    ///   for.
    init(loop: EventLoop, onReady: @escaping (Int32, Int32) -> Void) {
        self.loop = loop
        self.onReady = onReady
    }

    /// The sockets that a callback was given; whoever gave them keeps them alive.
    static func from(_ pointer: UnsafeMutableRawPointer?) -> CurlSockets? {
        pointer.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    /// Opens a socket. One that libcurl has closed without a word may have had the same number: libcurl then says no
    /// more of what it wants to know of the new one than it had said of the old.
    func open(_ address: curl_sockaddr) -> Int32 {
        let flags = Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let descriptor = socket(address.family, address.socktype | flags, address.protocol)
        if let wanted = watches[descriptor]?.wanted { watch(descriptor, for: wanted) }
        return descriptor
    }

    func close(_ descriptor: Int32) {
        ignore(descriptor)
        _ = Glibc.close(descriptor)
    }

    /// Waits on a socket for what libcurl wants (CURLMOPT_SOCKETFUNCTION). Not all of libcurl's sockets were opened
    /// here: a look-up's thread wakes it through a pair of its own.
    ///
    /// A socket that the kernel will not watch (it is out of memory) is left to the request's time-out. The callback's
    /// own way to report a failure would end every request of the client.
    func watch(_ descriptor: Int32, for wanted: Int32) {
        // Not `EventLoop.setInterest`: it may be another socket of the same number.
        ignore(descriptor)
        guard let interest = Self.interest(wanted) else { return }
        let registration = try? loop.register(descriptor, interest: interest) { [onReady] readiness in
            onReady(descriptor, Self.events(readiness))
        }
        if let registration { watches[descriptor] = Watch(registration: registration, wanted: wanted) }
    }

    private func ignore(_ descriptor: Int32) {
        guard let watch = watches.removeValue(forKey: descriptor) else { return }
        loop.deregister(watch.registration)
    }

    private static func interest(_ wanted: Int32) -> Interest? {
        switch wanted {
        case CURL_POLL_IN: .read
        case CURL_POLL_OUT: .write
        case CURL_POLL_INOUT: [.read, .write]
        default: nil
        }
    }

    private static func events(_ readiness: Readiness) -> Int32 {
        var events: Int32 = 0
        if readiness.contains(.read) || readiness.contains(.hangUp) { events |= CURL_CSELECT_IN }
        if readiness.contains(.write) { events |= CURL_CSELECT_OUT }
        if readiness.contains(.error) { events |= CURL_CSELECT_ERR }
        return events
    }
}
