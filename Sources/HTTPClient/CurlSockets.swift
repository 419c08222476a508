internal import CLibcurl
internal import EventLoop
internal import Glibc

/// libcurl's sockets as its loop sees them: opened and closed here, waited on as libcurl asks.
///
/// They are numbers and not ``FileDescriptor``s, for their owner is libcurl. The house's rule holds all the same: deregister
/// first, close last. libcurl closes a connection when it sees fit, long after the request that made it, and not always with a
/// word to the socket callback before; so closing goes through ``close(_:)``, which looks.
final class CurlSockets {
    private let loop: EventLoop
    private let onReady: (Int32, Int32) -> Void
    private var registrations: [Int32: Registration] = [:]

    /// - Parameter onReady: Called on the loop with a socket that is ready, and libcurl's word for what it is ready for.
    init(loop: EventLoop, onReady: @escaping (Int32, Int32) -> Void) {
        self.loop = loop
        self.onReady = onReady
    }

    /// The sockets that a callback was given; whoever gave them keeps them alive.
    static func from(_ pointer: UnsafeMutableRawPointer?) -> CurlSockets? {
        pointer.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    static func open(_ address: curl_sockaddr) -> Int32 {
        let flags = Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        return socket(address.family, address.socktype | flags, address.protocol)
    }

    func close(_ descriptor: Int32) {
        ignore(descriptor)
        _ = Glibc.close(descriptor)
    }

    /// Waits on a socket for what libcurl wants (CURLMOPT_SOCKETFUNCTION). Not all of libcurl's sockets were opened here: a
    /// look-up's thread wakes it through a pair of its own.
    ///
    /// A socket that the kernel will not watch (it is out of memory) is left to the request's time-out. The callback's own way to
    /// report a failure would end every request of the client.
    func watch(_ descriptor: Int32, for wanted: Int32) {
        let interest: Interest
        switch wanted {
        case CURL_POLL_IN: interest = .read
        case CURL_POLL_OUT: interest = .write
        case CURL_POLL_INOUT: interest = [.read, .write]
        default:
            ignore(descriptor)
            return
        }
        if let registration = registrations[descriptor] {
            loop.setInterest(interest, of: registration)
        } else {
            registrations[descriptor] = try? loop.register(descriptor, interest: interest) { [onReady] readiness in
                onReady(descriptor, Self.events(readiness))
            }
        }
    }

    private func ignore(_ descriptor: Int32) {
        guard let registration = registrations.removeValue(forKey: descriptor) else { return }
        loop.deregister(registration)
    }

    private static func events(_ readiness: Readiness) -> Int32 {
        var events: Int32 = 0
        if readiness.contains(.read) || readiness.contains(.hangUp) { events |= CURL_CSELECT_IN }
        if readiness.contains(.write) { events |= CURL_CSELECT_OUT }
        if readiness.contains(.error) { events |= CURL_CSELECT_ERR }
        return events
    }
}
