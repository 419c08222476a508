internal import CLibcurl
internal import EventLoop

/// libcurl's easy handle of one connection (CURLOPT_CONNECT_ONLY). libcurl resolves the name, connects and speaks TLS;
/// this module speaks HTTP over the connection.
final class EasyHandle {
    /// The handle as libcurl knows it.
    let pointer: UnsafeMutableRawPointer
    private let errorText: UnsafeMutableBufferPointer<CChar>

    /// - Parameters:
    ///   - origin: The origin to connect to.
    ///   - sockets: Opens and closes the sockets. Must outlive this handle.
    /// - Throws: ``HTTPClientError`` with `internalFailure` if libcurl is out of memory.
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

    /// The handle must have been removed from libcurl's multi handle.
    deinit {
        curl_easy_cleanup(pointer)
        errorText.deallocate()
    }

    // MARK: Established connection

    enum Result {
        /// The number of bytes sent or received, at least 1.
        case count(Int)
        /// Not possible now. The socket becomes ready when it is.
        case again
        /// The peer closed the connection, or the connection was lost.
        case end
        case failure
    }

    /// The connection's socket, or -1.
    var socket: Int32 {
        var socket = Int32(-1)
        return clibcurl_get_socket(pointer, CURLINFO_ACTIVESOCKET, &socket) == CURLE_OK ? socket : -1
    }

    /// Sends as many bytes as the socket accepts. After ``Result/again``, the next call must pass the same bytes again.
    func send(_ bytes: UnsafeRawBufferPointer) -> Result {
        var count = 0
        switch curl_easy_send(pointer, bytes.baseAddress, bytes.count, &count) {
        case CURLE_OK: return .count(count)
        case CURLE_AGAIN: return .again
        default: return .failure
        }
    }

    /// Receives the bytes that are available.
    func receive(into buffer: UnsafeMutableRawBufferPointer) -> Result {
        var count = 0
        switch curl_easy_recv(pointer, buffer.baseAddress, buffer.count, &count) {
        case CURLE_OK: return count > 0 ? .count(count) : .end
        case CURLE_AGAIN: return .again
        default: return .failure
        }
    }

    // MARK: Failures

    /// Returns libcurl's explanation why a connection could not be established. It names hosts and certificates.
    func explanation(of code: CURLcode) -> String {
        let text = errorText.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        return text.isEmpty ? String(cString: curl_easy_strerror(code)) : String(decoding: text, as: UTF8.self)
    }

    // MARK: Options

    /// Disables features that the environment or libcurl's defaults could add to a plain connection.
    private func setSafety() throws(HTTPClientError) {
        try set(CURLOPT_NOSIGNAL, 1)
        // Otherwise a timeout during a name lookup blocks the loop until the lookup's thread ends.
        try set(CURLOPT_QUICK_EXIT, 1)
        try set(CURLOPT_PROTOCOLS_STR, "http,https")
        try set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        try set(CURLOPT_DISALLOW_USERNAME_IN_URL, 1)
        // The empty string also keeps libcurl from reading `http_proxy` and similar variables.
        try set(CURLOPT_PROXY, "")
        try set(CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))
    }

    private func setTrust(_ settings: HTTPClientSettings) throws(HTTPClientError) {
        try set(CURLOPT_SSL_VERIFYPEER, settings.verifiesServer ? 1 : 0)
        try set(CURLOPT_SSL_VERIFYHOST, settings.verifiesServer ? 2 : 0)
        try set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        // One file, no folder: with a folder, libcurl reads all certificates again for each connection.
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

    /// Sets a text option. libcurl copies the text; `nil` removes libcurl's default.
    private func set(_ option: CURLoption, _ value: String?) throws(HTTPClientError) {
        try check(clibcurl_set_string(pointer, option, value))
    }

    private func check(_ code: CURLcode) throws(HTTPClientError) {
        guard code == CURLE_OK else { throw Curl.failure(code) }
    }
}
