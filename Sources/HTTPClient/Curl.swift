internal import CLibcurl
internal import Glibc

/// libcurl as a whole.
enum Curl {
    /// libcurl's own state, made once a process. It is safe to use from many threads afterwards.
    private static let initialization = curl_global_init(Int(CURL_GLOBAL_DEFAULT))

    /// - Throws: ``HTTPClientError/Code/internalFailure`` when libcurl, or the libssl beneath it, cannot start.
    static func initialize() throws(HTTPClientError) {
        guard initialization == CURLE_OK else { throw failure(initialization) }
    }

    /// A failure that has to do with no peer and no request.
    static func failure(_ code: CURLcode) -> HTTPClientError {
        HTTPClientError(
            code: .internalFailure,
            bodyBytesLeft: false,
            message: String(cString: curl_easy_strerror(code))
        )
    }
}

extension HTTPClientSettings {
    /// - Throws: ``HTTPClientError/Code/invalidSettings`` when the file of certificates cannot be read: libcurl would
    ///   say so only with the first request.
    func validate() throws(HTTPClientError) {
        guard let caCertificateFile, access(caCertificateFile, R_OK) != 0 else { return }
        throw HTTPClientError(
            code: .invalidSettings,
            bodyBytesLeft: false,
            message: "\(caCertificateFile): \(String(cString: strerror(errno)))"
        )
    }
}
