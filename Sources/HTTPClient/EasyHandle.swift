internal import CLibcurl

/// libcurl's handle of one transfer, which is made once and used for one request after another: making one is dear.
final class EasyHandle {
    /// What libcurl calls it.
    let pointer: UnsafeMutableRawPointer
    private let errorText: UnsafeMutableBufferPointer<CChar>
    private var headers: UnsafeMutablePointer<curl_slist>?

    /// - Parameter sockets: What opens and closes sockets. A connection outlives its handle, so that this must outlive libcurl's
    ///   multi handle.
    /// - Throws: ``HTTPClientError`` with `internalFailure` when libcurl is out of memory.
    init(settings: HTTPClientSettings, sockets: CurlSockets) throws(HTTPClientError) {
        guard let pointer = curl_easy_init() else { throw Curl.failure(CURLE_OUT_OF_MEMORY) }
        self.pointer = pointer
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.initialize(repeating: 0)
        try configure(settings, sockets)
    }

    deinit {
        curl_easy_cleanup(pointer)
        curl_slist_free_all(headers)
        errorText.deallocate()
    }

    /// Forgets the request's head and what was said of it. Everything else is set anew by the next request, or the same for all.
    func clear() {
        curl_slist_free_all(headers)
        headers = nil
        errorText[0] = 0
    }

    /// What libcurl said of the failure: names hosts and certificates, and quotes nothing that was sent.
    ///
    /// To be shown only for what failed before a request was written: later texts may quote the peer.
    var connectionErrorText: String? {
        let text = errorText.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        return text.isEmpty ? nil : String(decoding: text, as: UTF8.self)
    }

    /// The status of the final response; 0 if there is none.
    var status: Int {
        var status = 0
        return clibcurl_get_long(pointer, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK ? status : 0
    }

    // MARK: Options

    func set(_ option: CURLoption, _ value: Int) throws(HTTPClientError) {
        try check(clibcurl_set_long(pointer, option, value))
    }

    func set(_ option: CURLoption, offset value: Int) throws(HTTPClientError) {
        try check(clibcurl_set_offset(pointer, option, curl_off_t(value)))
    }

    /// libcurl copies the text; `nil` takes its default away.
    func set(_ option: CURLoption, _ value: String?) throws(HTTPClientError) {
        try check(clibcurl_set_string(pointer, option, value))
    }

    /// libcurl keeps the pointer.
    func set(_ option: CURLoption, pointer value: UnsafeMutableRawPointer) throws(HTTPClientError) {
        try check(clibcurl_set_pointer(pointer, option, value))
    }

    func setErrorText() throws(HTTPClientError) {
        try check(clibcurl_set_pointer(pointer, CURLOPT_ERRORBUFFER, errorText.baseAddress))
    }

    /// Adds a line to the head; libcurl is told with ``setHeaders()``.
    func addHeader(_ line: String) throws(HTTPClientError) {
        guard let longer = curl_slist_append(headers, line) else { throw Curl.failure(CURLE_OUT_OF_MEMORY) }
        headers = longer
    }

    func setHeaders() throws(HTTPClientError) {
        try check(clibcurl_set_list(pointer, CURLOPT_HTTPHEADER, headers))
    }

    /// For what libcurl returns when it is told of a callback.
    func check(_ code: CURLcode) throws(HTTPClientError) {
        guard code == CURLE_OK else { throw Curl.failure(code) }
    }
}
