internal import CLibcurl
internal import Glibc

/// Process-wide state of libcurl.
enum Curl {
    /// Initializes libcurl once per process. After that, libcurl may be used from several threads.
    private static let initialization = curl_global_init(Int(CURL_GLOBAL_DEFAULT))

    /// - Throws: ``HTTPClientError/Code/internalFailure`` if libcurl or its libssl cannot be initialized.
    static func initialize() throws(HTTPClientError) {
        guard initialization == CURLE_OK else { throw failure(initialization) }
    }

    /// Returns an error that is caused by neither a peer nor a request.
    static func failure(_ code: CURLcode) -> HTTPClientError {
        HTTPClientError(
            code: .internalFailure,
            bodyBytesLeft: false,
            message: String(cString: curl_easy_strerror(code))
        )
    }
}

extension HTTPClientSettings {
    /// - Throws: ``HTTPClientError/Code/invalidSettings`` if the certificate file cannot be read. libcurl would report
    ///   that only with the first request.
    func validate() throws(HTTPClientError) {
        guard let caCertificateFile, access(caCertificateFile, R_OK) != 0 else { return }
        throw HTTPClientError(
            code: .invalidSettings,
            bodyBytesLeft: false,
            message: "\(caCertificateFile): \(String(cString: strerror(errno)))"
        )
    }
}
