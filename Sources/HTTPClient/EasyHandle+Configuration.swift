internal import CLibcurl
internal import EventLoop
internal import Glibc
internal import HTTPTypes

extension EasyHandle {
    /// Sets what is the same for all transfers.
    func configure(_ settings: HTTPClientSettings, _ sockets: CurlSockets) throws(HTTPClientError) {
        try setErrorText()
        try setSafety()
        try setTrust(settings)
        try set(CURLOPT_CONNECTTIMEOUT_MS, Int(clamping: max(1, settings.connectTimeout.wholeMilliseconds)))
        try setCallbacks()
        try setSocketCallbacks(Unmanaged.passUnretained(sockets).toOpaque())
    }

    /// Sets the handle up for one transfer: everything that was set for the one before.
    ///
    /// - Parameter transfer: What the callbacks are given; kept alive by the caller until libcurl is done with it.
    func prepare(for transfer: Transfer, _ settings: HTTPClientSettings) throws(HTTPClientError) {
        let context = Unmanaged.passUnretained(transfer).toOpaque()
        for option in [
            CURLOPT_HEADERDATA, CURLOPT_WRITEDATA, CURLOPT_READDATA, CURLOPT_SEEKDATA, CURLOPT_PREREQDATA,
            CURLOPT_OPENSOCKETDATA,
        ] { try set(option, pointer: context) }
        try set(CURLOPT_URL, transfer.request.url)
        try setMethod(of: transfer.request)
        try setHead(of: transfer.request, settings)
    }

    /// Nothing that the environment, a server or libcurl's long list of features could add to a plain call.
    private func setSafety() throws(HTTPClientError) {
        try set(CURLOPT_NOSIGNAL, 1)
        // Otherwise a time-out that strikes during a name's look-up waits for the look-up's thread, and with it the
        // loop.
        try set(CURLOPT_QUICK_EXIT, 1)
        try set(CURLOPT_PROTOCOLS_STR, "http,https")
        try set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        try set(CURLOPT_FOLLOWLOCATION, 0)
        try set(CURLOPT_DISALLOW_USERNAME_IN_URL, 1)
        try set(CURLOPT_PATH_AS_IS, 1)
        // The empty text also keeps `http_proxy` and its like from being read.
        try set(CURLOPT_PROXY, "")
        try set(CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))
        // Shorter than the idle time-out of common servers (60 s, 75 s), so that it is seldom they who hang up first.
        try set(CURLOPT_MAXAGE_CONN, 30)
        // The least there is: bodies are small, and the default is 64 KiB a request.
        try set(CURLOPT_UPLOAD_BUFFERSIZE, 16 * 1024)
    }

    private func setTrust(_ settings: HTTPClientSettings) throws(HTTPClientError) {
        try set(CURLOPT_SSL_VERIFYPEER, 1)
        try set(CURLOPT_SSL_VERIFYHOST, 2)
        try set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        // One file, and no folder: with a folder, libcurl reads all certificates anew for each connection.
        try set(CURLOPT_CAPATH, nil)
        if let file = settings.caCertificateFile { try set(CURLOPT_CAINFO, file) }
    }

    private func setMethod(of request: HTTPClientRequest) throws(HTTPClientError) {
        let hasBody = !request.body.isEmpty
        // Each of the first two takes back what the others had set.
        switch request.method {
        case .post, .put, .patch:
            // With a length even when it is 0 (RFC 9110 §8.6).
            try setBody(of: request)
        default:
            if hasBody { try setBody(of: request) } else { try set(CURLOPT_HTTPGET, 1) }
        }
        if request.method == .head { try set(CURLOPT_NOBODY, 1) }
        let isImplied =
            request.method == .head || request.method == .post || (request.method == .get && !hasBody)
        try set(CURLOPT_CUSTOMREQUEST, isImplied ? nil : request.method.rawValue)
    }

    /// The body is asked for when the head has left, so that a kept connection that turns out to be dead is known
    /// before: libcurl does not see that one was reset, and fails with the head. Only what may be sent twice leaves with the head.
    private func setBody(of request: HTTPClientRequest) throws(HTTPClientError) {
        try set(CURLOPT_POST, 1)
        try set(CURLOPT_POSTFIELDSIZE_LARGE, offset: request.body.count)
        // An empty body would be asked for, too.
        if request.isIdempotent || request.body.isEmpty {
            try copy(CURLOPT_COPYPOSTFIELDS, request.body)
        } else {
            try set(CURLOPT_COPYPOSTFIELDS, nil)
        }
    }

    private func setHead(of request: HTTPClientRequest, _ settings: HTTPClientSettings) throws(HTTPClientError) {
        guard !hasHead(request.headerFields) else { return }
        try set(CURLOPT_USERAGENT, request.headerFields[.userAgent] == nil ? settings.userAgent : nil)
        // libcurl adds these by itself; a name without a value takes a field away.
        try addHeader("Expect:")
        if request.headerFields[.accept] == nil { try addHeader("Accept:") }
        if request.headerFields[.contentType] == nil { try addHeader("Content-Type:") }
        for field in request.headerFields {
            // And a semicolon stands for an empty value.
            try addHeader(field.value.isEmpty ? "\(field.name.rawName);" : "\(field.name.rawName): \(field.value)")
        }
        try setHeaders(request.headerFields)
    }

    // MARK: Callbacks

    private func setCallbacks() throws(HTTPClientError) {
        try check(
            clibcurl_set_write_function(pointer, CURLOPT_HEADERFUNCTION) { bytes, size, count, transfer in
                let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
                return Transfer.from(transfer)?.receiveHeaderLine(line) == true ? line.count : 0
            }
        )
        try check(
            clibcurl_set_write_function(pointer, CURLOPT_WRITEFUNCTION) { bytes, size, count, transfer in
                let part = UnsafeRawBufferPointer(start: bytes, count: size * count)
                return Transfer.from(transfer)?.receiveBody(part) == true ? part.count : 0
            }
        )
        try check(
            clibcurl_set_read_function(pointer) { bytes, size, count, transfer in
                let buffer = UnsafeMutableRawBufferPointer(start: bytes, count: size * count)
                return Transfer.from(transfer)?.readBody(into: buffer) ?? Int(CURL_READFUNC_ABORT)
            }
        )
        try check(
            clibcurl_set_seek_function(pointer) { transfer, offset, origin in
                let isStart = offset == 0 && origin == SEEK_SET
                return isStart && Transfer.from(transfer)?.rewindBody() == true ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL
            }
        )
        try check(
            clibcurl_set_prereq_function(pointer) { transfer, _, _, _, _ in
                Transfer.from(transfer)?.beginHead() == true ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
            }
        )
        try check(
            clibcurl_set_open_function(pointer) { transfer, _, address in
                guard let address, let transfer = Transfer.from(transfer), transfer.mayBeAttempted else {
                    return CURL_SOCKET_BAD
                }
                return transfer.sockets?.open(address.pointee) ?? CURL_SOCKET_BAD
            }
        )
    }

    private func setSocketCallbacks(_ sockets: UnsafeMutableRawPointer) throws(HTTPClientError) {
        try set(CURLOPT_CLOSESOCKETDATA, pointer: sockets)
        try check(
            clibcurl_set_close_function(pointer) { sockets, descriptor in
                CurlSockets.from(sockets)?.close(descriptor)
                return 0
            }
        )
    }
}

extension Transfer {
    /// The transfer that a callback was given; whoever gave it keeps it alive.
    fileprivate static func from(_ pointer: UnsafeMutableRawPointer?) -> Transfer? {
        pointer.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }
}
