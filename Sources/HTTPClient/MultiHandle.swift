internal import CLibcurl
internal import EventLoop

/// libcurl's handle of many transfers, driven by a loop: the loop says which sockets are ready and when time is up
/// (`curl_multi_socket_action`), libcurl says what it waits for.
///
/// libcurl must not be entered from its own callbacks. So nobody is told of an end from within: ends are collected
/// after libcurl has returned, and a continuation that is resumed runs later still, as a job of the loop.
final class MultiHandle {
    /// Handles kept for the next requests, beyond those under way.
    private static let maximumIdleHandles = 64

    /// Called on the loop when libcurl is done with a transfer, for ``remove(_:)`` to be called.
    var onEnd: (Transfer, Result<HTTPClientResponse, HTTPClientError>) -> Void = { _, _ in }

    private let settings: HTTPClientSettings
    private let loop: EventLoop
    /// `nil` once closed.
    private var multi: UnsafeMutableRawPointer?
    private var sockets: CurlSockets?
    private var timer: TimerID?
    private var running: [UnsafeMutableRawPointer: Transfer] = [:]
    private var idle: [EasyHandle] = []

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
            MultiHandle.from(context)?.sockets?.watch(socket, for: wanted)
            return 0
        }
        _ = clibcurl_multi_set_pointer(multi, CURLMOPT_TIMERDATA, context)
        _ = clibcurl_multi_set_timer_function(multi) { _, milliseconds, context in
            MultiHandle.from(context)?.setTimer(milliseconds)
            return 0
        }
        _ = clibcurl_multi_set_long(multi, CURLMOPT_PIPELINING, Int(CURLPIPE_NOTHING))
        // Idle connections kept, of all hosts: room for a few hosts at their most.
        _ = clibcurl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, 4 * max(1, settings.maximumConnections))
    }

    /// The handle that a callback was given: it closes libcurl's before it goes.
    private static func from(_ pointer: UnsafeMutableRawPointer?) -> MultiHandle? {
        pointer.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: Transfers

    /// Those that libcurl has in hand.
    var transfers: [Transfer] { Array(running.values) }

    /// Hands a transfer to libcurl, which begins with it at the end of this tick.
    ///
    /// - Throws: ``HTTPClientError`` when libcurl is out of memory; nothing has begun then.
    func start(_ transfer: Transfer) throws(HTTPClientError) {
        guard let multi, let sockets else { throw transfer.failure(.shutDown, "the client was shut down") }
        let handle =
            if let handle = idle.popLast() { handle } else { try EasyHandle(settings: settings, sockets: sockets) }
        transfer.sockets = sockets
        try handle.prepare(for: transfer, settings)
        guard curl_multi_add_handle(multi, handle.pointer) == CURLM_OK else {
            throw Curl.failure(CURLE_OUT_OF_MEMORY)
        }
        running[handle.pointer] = transfer
        transfer.state = .running(handle)
    }

    /// Takes a transfer back from libcurl, ended or not. One that is not loses its connection.
    func remove(_ handle: EasyHandle) {
        _ = curl_multi_remove_handle(multi, handle.pointer)
        running[handle.pointer] = nil
        handle.clear()
        if idle.count < Self.maximumIdleHandles { idle.append(handle) }
    }

    /// Closes all connections, for good. Every transfer must have been removed.
    func close() {
        guard let multi else { return }
        precondition(running.isEmpty, "a transfer is under way")
        idle.removeAll()
        // Closes the connections, which calls back.
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

    /// Tells of every transfer that libcurl is done with.
    private func collect(_ multi: UnsafeMutableRawPointer) {
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            // The message goes with its handle.
            let (kind, pointer, code) = (message.pointee.msg, message.pointee.easy_handle, message.pointee.data.result)
            guard kind == CURLMSG_DONE, let pointer, let transfer = running[pointer] else { continue }
            onEnd(transfer, transfer.outcome(code))
        }
    }
}
