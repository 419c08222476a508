internal import CLibcurl
internal import HTTPTypes

/// libcurl's handle of one transfer, which is made once and used for one request after another: making one is dear.
final class EasyHandle {
    /// What libcurl calls it.
    let pointer: UnsafeMutableRawPointer
    private let errorText: UnsafeMutableBufferPointer<CChar>
    private var headers: UnsafeMutablePointer<curl_slist>?
    /// What ``headers`` were made of: one request after another has the same.
    private var headerFields: HTTPFields?

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

    /// Forgets what was said of the request. Everything else is set anew by the next request, or the same for all.
    func clear() {
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

    /// libcurl copies the bytes, as many as it was told of.
    func copy(_ option: CURLoption, _ bytes: [UInt8]) throws(HTTPClientError) {
        // An empty array may have no address, and that would mean no bytes at all.
        guard !bytes.isEmpty else { return try set(option, "") }
        try check(bytes.withUnsafeBytes { clibcurl_set_bytes(pointer, option, $0.baseAddress) })
    }

    /// Whether the head is of these fields already; if not, it is empty after this.
    func hasHead(_ fields: HTTPFields) -> Bool {
        if headerFields == fields { return true }
        curl_slist_free_all(headers)
        (headers, headerFields) = (nil, nil)
        return false
    }

    /// Adds a line to the head; libcurl is told with ``setHeaders(_:)``.
    func addHeader(_ line: String) throws(HTTPClientError) {
        guard let longer = curl_slist_append(headers, line) else { throw Curl.failure(CURLE_OUT_OF_MEMORY) }
        headers = longer
    }

    /// The head is complete.
    ///
    /// - Parameter fields: What it was made of, for ``hasHead(_:)``.
    func setHeaders(_ fields: HTTPFields) throws(HTTPClientError) {
        try check(clibcurl_set_list(pointer, CURLOPT_HTTPHEADER, headers))
        headerFields = fields
    }

    /// For what libcurl returns when it is told of a callback.
    func check(_ code: CURLcode) throws(HTTPClientError) {
        guard code == CURLE_OK else { throw Curl.failure(code) }
    }
}
