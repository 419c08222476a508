import CLibssl
import Glibc

/// The state shared by all TLS connections of a server or of a client: certificates, protocol versions and cipher suites.
///
/// It supports TLS 1.2 and 1.3 with ALPN `http/1.1`, without renegotiation, compression or early data.
package final class TLSContext: @unchecked Sendable {
    // OpenSSL counts references to an `SSL_CTX` atomically, and this class does not change it after `init`.
    let pointer: OpaquePointer
    /// Whether the contexts' connections are those of a server.
    let isServer: Bool

    /// Creates the context of a server.
    ///
    /// - Parameters:
    ///   - certificateChain: PEM, with the server's own certificate first.
    ///   - privateKey: PEM, without a passphrase.
    /// - Throws: ``TLSError`` if either cannot be read or the key does not match the certificate.
    package init(certificateChain: [UInt8], privateKey: [UInt8]) throws {
        guard let pointer = SSL_CTX_new(TLS_server_method()) else { throw TLSError("cannot create a TLS context") }
        self.pointer = pointer
        isServer = true
        try configure()
        clibssl_set_server_options(pointer)
        // One ticket per connection is enough, and saves writing two at each handshake.
        SSL_CTX_set_num_tickets(pointer, 1)
        let id = Array("kakao-push-server".utf8)
        SSL_CTX_set_session_id_context(pointer, id, UInt32(id.count))
        SSL_CTX_set_alpn_select_cb(pointer, selectHTTP11, nil)
        try use(certificateChain: certificateChain)
        try use(privateKey: privateKey)
    }

    /// Creates the context of a client.
    ///
    /// - Parameter authorities: The certificates to trust. `nil` trusts every server, and does not verify its name.
    /// - Throws: ``TLSError`` if OpenSSL is out of memory.
    package init(trusting authorities: TrustStore?) throws {
        guard let pointer = SSL_CTX_new(TLS_client_method()) else { throw TLSError("cannot create a TLS context") }
        self.pointer = pointer
        isServer = false
        try configure()
        guard SSL_CTX_set_alpn_protos(pointer, supported.utf8Start, UInt32(supported.utf8CodeUnitCount)) == 0 else {
            throw TLSError("ALPN is not available")
        }
        guard let authorities else { return }
        SSL_CTX_set1_cert_store(pointer, authorities.pointer)
        SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
        // A trusted certificate need not be that of a root, as for curl.
        X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(pointer), UInt(X509_V_FLAG_PARTIAL_CHAIN))
    }

    deinit {
        SSL_CTX_free(pointer)
    }

    private func configure() throws {
        clibssl_set_modes(pointer)
        clibssl_set_options(pointer)
        guard clibssl_set_minimum_tls_1_2(pointer) == 1 else { throw TLSError("TLS 1.2 is not available") }
        // For TLS 1.2. These suites have the properties of all TLS 1.3 suites: forward secrecy and authenticated
        // encryption, no CBC padding that could be an oracle.
        guard SSL_CTX_set_cipher_list(pointer, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 else {
            throw TLSError("the cipher suites are not available")
        }
        SSL_CTX_set_msg_callback(pointer, TLSEngine.received)
        // Clients keep their sessions themselves. A server's cache would be memory that a peer can make grow.
        clibssl_disable_session_cache(pointer)
    }

    private func use(certificateChain: [UInt8]) throws {
        try withMemoryBIO(certificateChain) { bio in
            guard let leaf = PEM_read_bio_X509(bio, nil, nil, nil) else { throw TLSError("the certificate is not PEM") }
            defer { X509_free(leaf) }
            guard SSL_CTX_use_certificate(pointer, leaf) == 1 else { throw TLSError("the certificate cannot be used") }
            while let next = PEM_read_bio_X509(bio, nil, nil, nil) {
                defer { X509_free(next) }
                guard SSL_CTX_ctrl(pointer, SSL_CTRL_CHAIN_CERT, 1, UnsafeMutableRawPointer(next)) == 1 else {
                    throw TLSError("the certificate chain cannot be used")
                }
            }
            // The loop ended because there was no further certificate, which OpenSSL records as an error.
            ERR_clear_error()
        }
    }

    private func use(privateKey: [UInt8]) throws {
        try withMemoryBIO(privateKey) { bio in
            // Without this callback, OpenSSL would prompt on the terminal for a passphrase.
            guard let key = PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in 0 }, nil) else {
                throw TLSError("the private key is not PEM, or has a passphrase")
            }
            defer { EVP_PKEY_free(key) }
            guard SSL_CTX_use_PrivateKey(pointer, key) == 1, SSL_CTX_check_private_key(pointer) == 1 else {
                throw TLSError("the private key does not match the certificate")
            }
        }
    }
}

/// Calls `body` with a BIO that reads `bytes`.
func withMemoryBIO(_ bytes: [UInt8], _ body: (OpaquePointer) throws -> Void) throws {
    guard let bio = BIO_new_mem_buf(bytes, Int32(clamping: bytes.count)) else { throw TLSError("out of memory") }
    defer { BIO_free(bio) }
    try body(bio)
}

/// The ALPN protocols, each after its length.
private let supported: StaticString = "\u{8}http/1.1"

/// Selects `http/1.1` from the client's ALPN protocols. A client that offers only other protocols is rejected (RFC 7301
/// §3.2).
private func selectHTTP11(
    _: OpaquePointer?,
    selected: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    selectedLength: UnsafeMutablePointer<UInt8>?,
    offered: UnsafePointer<UInt8>?,
    offeredLength: UInt32,
    _: UnsafeMutableRawPointer?
) -> Int32 {
    guard let offered else { return SSL_TLSEXT_ERR_NOACK }
    var name: UnsafeMutablePointer<UInt8>?
    // The name is that in `supported`, which lives as long as the process.
    let outcome = SSL_select_next_proto(
        &name,
        selectedLength,
        supported.utf8Start,
        UInt32(supported.utf8CodeUnitCount),
        offered,
        offeredLength
    )
    guard outcome == OPENSSL_NPN_NEGOTIATED else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    selected?.pointee = UnsafePointer(name)
    return SSL_TLSEXT_ERR_OK
}
