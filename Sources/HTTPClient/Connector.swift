internal import CLibcurl
internal import EventLoop

/// Establishes connections through libcurl's multi handle, driven by an event loop. The loop reports ready sockets and
/// expired timers (`curl_multi_socket_action`); libcurl says which events it waits for. libcurl's part ends when a
/// connection is established.
///
/// libcurl must not be entered from its own callbacks. Outcomes are therefore collected and reported after libcurl has
/// returned.
final class Connector {
    /// Called on the loop when a connection is established or has failed.
    var onEnd: (Connection, Failure?) -> Void = { _, _ in }

    /// The reason why a connection could not be established.
    struct Failure {
        let code: HTTPClientError.Code
        /// A message for people. It names hosts and certificates.
        let message: String
    }

    private let settings: HTTPClientSettings
    private let loop: EventLoop
    /// `nil` after ``close()``.
    private var multi: UnsafeMutableRawPointer?
    private var sockets: CurlSockets?
    private var timer: TimerID?
    private var connections: [UnsafeMutableRawPointer: Connection] = [:]

    /// - Throws: ``HTTPClientError`` with `invalidSettings` if the certificate file cannot be read, with
    ///   `internalFailure` if libcurl is out of memory.
    init(settings: HTTPClientSettings, loop: EventLoop) throws(HTTPClientError) {
        self.settings = settings
        self.loop = loop
        try Curl.initialize()
        try settings.validate()
        guard let multi = curl_multi_init() else { throw Curl.failure(CURLE_OUT_OF_MEMORY) }
        self.multi = multi
        sockets = CurlSockets(loop: loop) { [unowned self] socket, events in act(socket, events) }
        configure(multi)
    }

    private func configure(_ multi: UnsafeMutableRawPointer) {
        // The results are ignored: they only report unknown options, and the libcurl that this is built with knows
        // these.
        let context = Unmanaged.passUnretained(self).toOpaque()
        _ = clibcurl_multi_set_pointer(multi, CURLMOPT_SOCKETDATA, context)
        _ = clibcurl_multi_set_socket_function(multi) { _, socket, wanted, context, _ in
            Connector.from(context)?.sockets?.watch(socket, for: wanted)
            return 0
        }
        _ = clibcurl_multi_set_pointer(multi, CURLMOPT_TIMERDATA, context)
        _ = clibcurl_multi_set_timer_function(multi) { _, milliseconds, context in
            Connector.from(context)?.setTimer(milliseconds)
            return 0
        }
    }

    /// Returns the connector that was passed to a callback. It is alive: it closes libcurl's handle before it is
    /// destroyed.
    private static func from(_ pointer: UnsafeMutableRawPointer?) -> Connector? {
        pointer.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: Connections

    /// Starts to establish a connection.
    ///
    /// - Throws: ``HTTPClientError`` if libcurl is out of memory or the connector is closed. Nothing has been started
    ///   then.
    func open(_ destination: Destination) throws(HTTPClientError) -> Connection {
        guard let multi, let sockets else { throw Curl.failure(CURLE_FAILED_INIT) }
        let handle = try EasyHandle(destination.origin, settings: settings, sockets: sockets)
        guard curl_multi_add_handle(multi, handle.pointer) == CURLM_OK else {
            throw Curl.failure(CURLE_OUT_OF_MEMORY)
        }
        let connection = Connection(handle, destination: destination, loop: loop)
        connections[handle.pointer] = connection
        return connection
    }

    /// Closes a connection in any state.
    func close(_ connection: Connection) {
        guard connections.removeValue(forKey: connection.handle.pointer) != nil else { return }
        connection.stop()
        _ = curl_multi_remove_handle(multi, connection.handle.pointer)
    }

    /// Closes all connections and the connector, permanently.
    func close() {
        for connection in connections.values { close(connection) }
        guard let multi else { return }
        curl_multi_cleanup(multi)
        self.multi = nil
        setTimer(-1)
    }

    // MARK: Event loop

    /// Sets libcurl's timer: call back after this many milliseconds. 0 means as soon as libcurl has returned, -1
    /// cancels the timer.
    private func setTimer(_ milliseconds: Int) {
        if let timer { loop.cancel(timer) }
        timer = nil
        guard milliseconds >= 0 else { return }
        timer = loop.schedule(after: .milliseconds(milliseconds)) { [unowned self] in
            timer = nil
            act(CURL_SOCKET_TIMEOUT, 0)
        }
    }

    private func act(_ socket: Int32, _ events: Int32) {
        guard let multi else { return }
        var count: Int32 = 0
        _ = curl_multi_socket_action(multi, socket, events, &count)
        collect(multi)
    }

    /// Reports every connection that libcurl has finished with.
    private func collect(_ multi: UnsafeMutableRawPointer) {
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            // The fields are copied first: removing the handle invalidates the message.
            let (kind, pointer, code) = (message.pointee.msg, message.pointee.easy_handle, message.pointee.data.result)
            guard kind == CURLMSG_DONE, let pointer, let connection = connections[pointer] else { continue }
            // From here on, the connection watches its own socket.
            sockets?.watch(connection.handle.socket, for: CURL_POLL_REMOVE)
            if code == CURLE_OK, connection.start() {
                onEnd(connection, nil)
            } else {
                let failure = Failure(code: Self.code(code), message: connection.handle.explanation(of: code))
                close(connection)
                onEnd(connection, failure)
            }
        }
    }

    /// Maps the libcurl results that establishing a connection can have (libcurl-errors(3)).
    private static func code(_ result: CURLcode) -> HTTPClientError.Code {
        switch result {
        case CURLE_URL_MALFORMAT: .invalidRequest
        case CURLE_COULDNT_RESOLVE_HOST: .cannotResolve
        case CURLE_COULDNT_CONNECT: .cannotConnect
        case CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM,
            CURLE_SSL_CIPHER, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_INVALIDCERTSTATUS:
            .tls
        case CURLE_OPERATION_TIMEDOUT: .timedOut
        case CURLE_SEND_ERROR, CURLE_RECV_ERROR: .connectionLost
        default: .internalFailure
        }
    }
}
