internal import CLibcurl
internal import EventLoop

/// libcurl's handle of one connection (CURLOPT_CONNECT_ONLY): libcurl looks the name up, connects, and speaks TLS; what is said over the
/// connection is ours.
final class EasyHandle {
    /// What libcurl calls it.
    let pointer: UnsafeMutableRawPointer
    private let errorText: UnsafeMutableBufferPointer<CChar>

    /// - Parameters:
    ///   - origin: Where it connects to.
    ///   - sockets: What opens and closes sockets; must outlive this.
    /// - Throws: ``HTTPClientError`` with `internalFailure` when libcurl is out of memory.
    init(_ origin: Origin, settings: HTTPClientSettings, sockets: CurlSockets) throws(HTTPClientError) {
        guard let pointer = curl_easy_init() else { throw Curl.failure(CURLE_OUT_OF_MEMORY) }
        self.pointer = pointer
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.initialize(repeating: 0)
        try check(clibcurl_set_pointer(pointer, CURLOPT_ERRORBUFFER, errorText.baseAddress))
        try set(CURLOPT_URL, origin.text)
        try set(CURLOPT_CONNECT_ONLY, 1)
        try set(CURLOPT_CONNECTTIMEOUT_MS, Int(clamping: max(1, settings.connectTimeout.wholeMilliseconds)))
        try setSafety()
        try setTrust(settings)
        try setSockets(Unmanaged.passUnretained(sockets).toOpaque())
    }

    /// The handle must have been taken from libcurl's multi handle.
    deinit {
        curl_easy_cleanup(pointer)
        errorText.deallocate()
    }

    // MARK: A connection that stands

    enum Result {
        /// So many bytes were sent or received, at least one.
        case count(Int)
        /// Not now: the socket says when.
        case again
        /// The other side has ended; or the connection broke.
        case end
        case failure
    }

    /// The connection's socket, or -1.
    var socket: Int32 {
        var socket = Int32(-1)
        return clibcurl_get_socket(pointer, CURLINFO_ACTIVESOCKET, &socket) == CURLE_OK ? socket : -1
    }

    /// Sends what can be sent at once. After ``Result/again`` the same bytes must be given again, from the same place.
    func send(_ bytes: UnsafeRawBufferPointer) -> Result {
        var count = 0
        switch curl_easy_send(pointer, bytes.baseAddress, bytes.count, &count) {
        case CURLE_OK: return .count(count)
        case CURLE_AGAIN: return .again
        default: return .failure
        }
    }

    /// Receives what is there.
    func receive(into buffer: UnsafeMutableRawBufferPointer) -> Result {
        var count = 0
        switch curl_easy_recv(pointer, buffer.baseAddress, buffer.count, &count) {
        case CURLE_OK: return count > 0 ? .count(count) : .end
        case CURLE_AGAIN: return .again
        default: return .failure
        }
    }

    // MARK: Failures

    /// What libcurl said of a connection that could not be made: names hosts and certificates.
    func explanation(of code: CURLcode) -> String {
        let text = errorText.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        return text.isEmpty ? String(cString: curl_easy_strerror(code)) : String(decoding: text, as: UTF8.self)
    }

    // MARK: Options

    /// Nothing that the environment or libcurl's long list of features could add to a plain connection.
    private func setSafety() throws(HTTPClientError) {
        try set(CURLOPT_NOSIGNAL, 1)
        // Otherwise a time-out that strikes during a name's look-up waits for the look-up's thread, and with it the
        // loop.
        try set(CURLOPT_QUICK_EXIT, 1)
        try set(CURLOPT_PROTOCOLS_STR, "http,https")
        try set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        try set(CURLOPT_DISALLOW_USERNAME_IN_URL, 1)
        // The empty text also keeps `http_proxy` and its like from being read.
        try set(CURLOPT_PROXY, "")
        try set(CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))
    }

    private func setTrust(_ settings: HTTPClientSettings) throws(HTTPClientError) {
        try set(CURLOPT_SSL_VERIFYPEER, settings.verifiesServer ? 1 : 0)
        try set(CURLOPT_SSL_VERIFYHOST, settings.verifiesServer ? 2 : 0)
        try set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        // One file, and no folder: with a folder, libcurl reads all certificates anew for each connection.
        try set(CURLOPT_CAPATH, nil)
        if let file = settings.caCertificateFile { try set(CURLOPT_CAINFO, file) }
    }

    private func setSockets(_ sockets: UnsafeMutableRawPointer) throws(HTTPClientError) {
        try check(clibcurl_set_pointer(pointer, CURLOPT_OPENSOCKETDATA, sockets))
        try check(
            clibcurl_set_open_function(pointer) { sockets, _, address in
                guard let address else { return CURL_SOCKET_BAD }
                return CurlSockets.from(sockets)?.open(address.pointee) ?? CURL_SOCKET_BAD
            }
        )
        try check(clibcurl_set_pointer(pointer, CURLOPT_CLOSESOCKETDATA, sockets))
        try check(
            clibcurl_set_close_function(pointer) { sockets, descriptor in
                CurlSockets.from(sockets)?.close(descriptor)
                return 0
            }
        )
    }

    private func set(_ option: CURLoption, _ value: Int) throws(HTTPClientError) {
        try check(clibcurl_set_long(pointer, option, value))
    }

    /// libcurl copies the text; `nil` takes its default away.
    private func set(_ option: CURLoption, _ value: String?) throws(HTTPClientError) {
        try check(clibcurl_set_string(pointer, option, value))
    }

    private func check(_ code: CURLcode) throws(HTTPClientError) {
        guard code == CURLE_OK else { throw Curl.failure(code) }
    }
}
