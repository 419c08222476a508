internal import CLibcurl
internal import EventLoop

/// libcurl's handle of many connections, driven by a loop: the loop says which sockets are ready and when time is up
/// (`curl_multi_socket_action`), libcurl says what it waits for. It has done its part when a connection stands.
///
/// libcurl must not be entered from its own callbacks. So nobody is told of an end from within: ends are collected after libcurl has
/// returned.
final class Connector {
    /// Called on the loop when a connection stands, or cannot be made.
    var onEnd: (Connection, Failure?) -> Void = { _, _ in }

    /// Why a connection cannot be made.
    struct Failure {
        let code: HTTPClientError.Code
        /// Names hosts and certificates.
        let message: String
    }

    private let settings: HTTPClientSettings
    private let loop: EventLoop
    /// `nil` once closed.
    private var multi: UnsafeMutableRawPointer?
    private var sockets: CurlSockets?
    private var timer: TimerID?
    private var connections: [UnsafeMutableRawPointer: Connection] = [:]

    /// - Throws: ``HTTPClientError`` with `invalidSettings` when the file of certificates cannot be read, with
    ///   `internalFailure` when libcurl is out of memory.
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
        // The results say only that an option is unknown, which in the libcurl that this was built with is not so.
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

    /// The connector that a callback was given: it closes libcurl's handle before it goes.
    private static func from(_ pointer: UnsafeMutableRawPointer?) -> Connector? {
        pointer.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: Connections

    /// Begins to make a connection.
    ///
    /// - Throws: ``HTTPClientError`` when libcurl is out of memory, or closed; nothing has begun then.
    func open(_ origin: Origin) throws(HTTPClientError) -> Connection {
        guard let multi, let sockets else { throw Curl.failure(CURLE_FAILED_INIT) }
        let handle = try EasyHandle(origin, settings: settings, sockets: sockets)
        guard curl_multi_add_handle(multi, handle.pointer) == CURLM_OK else {
            throw Curl.failure(CURLE_OUT_OF_MEMORY)
        }
        let connection = Connection(handle, origin: origin, loop: loop)
        connections[handle.pointer] = connection
        return connection
    }

    /// Ends a connection, in whatever state it is.
    func close(_ connection: Connection) {
        guard connections.removeValue(forKey: connection.handle.pointer) != nil else { return }
        connection.stop()
        _ = curl_multi_remove_handle(multi, connection.handle.pointer)
    }

    /// Ends all connections, for good.
    func close() {
        for connection in connections.values { close(connection) }
        guard let multi else { return }
        curl_multi_cleanup(multi)
        self.multi = nil
        setTimer(-1)
    }

    // MARK: The loop

    /// Asked for by libcurl: call back in so many milliseconds, 0 for as soon as it has returned, -1 for not at all.
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

    /// Tells of every connection that libcurl is done with.
    private func collect(_ multi: UnsafeMutableRawPointer) {
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            // The message goes with its handle.
            let (kind, pointer, code) = (message.pointee.msg, message.pointee.easy_handle, message.pointee.data.result)
            guard kind == CURLMSG_DONE, let pointer, let connection = connections[pointer] else { continue }
            // From here on the socket is the connection's to watch.
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

    /// libcurl's results that making a connection can have (libcurl-errors(3)).
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
