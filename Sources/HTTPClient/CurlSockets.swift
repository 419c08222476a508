internal import CLibcurl
internal import EventLoop
internal import Glibc

/// Opens, closes and watches libcurl's sockets on the event loop.
///
/// Sockets are plain numbers, not ``FileDescriptor``s, because libcurl owns them. A socket must be deregistered before
/// it is closed. libcurl closes connections when it chooses, long after the request that opened them, so it closes them
/// through ``close(_:)``, which deregisters first. The exception is a socket that never connected: libcurl closes it
/// itself, before it reports that the socket need not be watched (7.88, `cf_socket_close`). ``open(_:)`` and
/// ``watch(_:for:)`` allow for that.
final class CurlSockets {
    private struct Watch {
        let registration: Registration
        /// The events, as a `CURL_POLL_…` value.
        let wanted: Int32
    }

    private let loop: EventLoop
    private let onReady: (Int32, Int32) -> Void
    private var watches: [Int32: Watch] = [:]

    /// - Parameter onReady: Called on the loop with a ready socket and its events as `CURL_CSELECT_…` flags.
    init(loop: EventLoop, onReady: @escaping (Int32, Int32) -> Void) {
        self.loop = loop
        self.onReady = onReady
    }

    /// Returns the sockets that were passed to a callback. The caller that registered them keeps them alive.
    static func from(_ pointer: UnsafeMutableRawPointer?) -> CurlSockets? {
        pointer.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    /// Opens a socket. Its number may be that of a socket that libcurl closed itself. libcurl then reports only changes
    /// relative to the old socket's events. The old events are therefore watched on the new socket.
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

    /// Watches a socket for the events that libcurl wants (CURLMOPT_SOCKETFUNCTION). Some sockets were not opened here:
    /// the thread of a name lookup wakes libcurl through a socket pair.
    ///
    /// If the kernel cannot watch the socket (out of memory), the request ends by its timeout. An error from libcurl's
    /// callback would end every request of the client.
    func watch(_ descriptor: Int32, for wanted: Int32) {
        // Not `EventLoop.setInterest`: this may be a new socket with a reused number.
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
