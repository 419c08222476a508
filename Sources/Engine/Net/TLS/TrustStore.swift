import CLibssl
import Glibc

/// The certificates that a client trusts: mostly those of authorities. All clients of a process should share one.
package final class TrustStore: @unchecked Sendable {
    // OpenSSL locks an `X509_STORE` and counts its references atomically.
    let pointer: OpaquePointer

    /// The system's certificates. Each is read when it is first needed, since all together take megabytes.
    ///
    /// The variables `SSL_CERT_FILE` and `SSL_CERT_DIR` name other places (`SSL_CTX_set_default_verify_paths(3)`).
    package static let system: TrustStore = {
        let store = TrustStore()
        X509_STORE_set_default_paths(store.pointer)
        ERR_clear_error()
        return store
    }()

    /// Reads the certificates of a file, and trusts only those.
    ///
    /// - Parameter file: The path of a PEM file.
    /// - Throws: ``TLSError`` if the file cannot be read or has no certificate.
    package convenience init(file: String) throws(TLSError) {
        self.init()
        guard access(file, R_OK) == 0 else { throw TLSError("\(file): \(String(cString: strerror(errno)))") }
        ERR_clear_error()
        guard X509_STORE_load_file(pointer, file) == 1 else { throw TLSError("\(file) has no certificate in PEM") }
    }

    /// Returns the certificates of a file, or the system's if there is none.
    ///
    /// - Throws: ``TLSError`` if the file cannot be read or has no certificate.
    package static func reading(_ file: String?) throws(TLSError) -> TrustStore {
        guard let file else { return .system }
        return try TrustStore(file: file)
    }

    private init() {
        guard let pointer = X509_STORE_new() else { preconditionFailure("out of memory") }
        self.pointer = pointer
    }

    deinit {
        X509_STORE_free(pointer)
    }
}
