import CLibssl

/// The TLS of one connection, as bytes in and bytes out, without a socket.
///
/// It works between two memory BIOs. Plain and encrypted connections therefore share the socket code, and TLS can be
/// tested without a socket. It is confined to its connection's loop, because two threads must not use an `SSL`.
package final class TLSEngine {
    /// The result of a read.
    package enum ReadResult: Equatable {
        case bytes(Int)
        /// All input was read, or the handshake needs more.
        case needsInput
        /// The peer has announced that it will send no more (`close_notify`).
        case closed
        /// The peer does not speak TLS or violated the protocol. The connection must be closed after the output of
        /// ``drain(into:)`` is sent.
        case failed
    }

    /// The maximum number of key updates that a peer may make (RFC 8446 §4.6.3). Each costs as much as a small request, and 27 bytes.
    /// Real peers make none, or one for each hundred gigabytes or so.
    private static let maximumKeyUpdates = 16

    private let ssl: OpaquePointer
    /// Ciphertext from the peer. `ssl` owns this BIO and `outgoing`.
    private let incoming: OpaquePointer
    /// Ciphertext for the peer.
    private let outgoing: OpaquePointer
    private var hasFailed = false
    private var keyUpdates = 0

    private init(of context: TLSContext) throws {
        guard let ssl = SSL_new(context.pointer), let incoming = BIO_new(BIO_s_mem()),
            let outgoing = BIO_new(BIO_s_mem())
        else { throw TLSError("out of memory") }
        self.ssl = ssl
        self.incoming = incoming
        self.outgoing = outgoing
        SSL_set_bio(ssl, incoming, outgoing)
        // Valid as long as `ssl`, which this object frees.
        SSL_set_ex_data(ssl, 0, Unmanaged.passUnretained(self).toOpaque())
    }

    /// OpenSSL's callback for each protocol message: counts the key updates of the peer.
    static let received:
        @convention(c) (
            _ isSent: Int32, _ version: Int32, _ contentType: Int32, _ message: UnsafeRawPointer?, _ length: Int,
            OpaquePointer?, UnsafeMutableRawPointer?
        ) -> Void = { isSent, _, contentType, message, length, ssl, _ in
            guard isSent == 0, contentType == SSL3_RT_HANDSHAKE, length > 0,
                message?.load(as: UInt8.self) == UInt8(SSL3_MT_KEY_UPDATE), let engine = SSL_get_ex_data(ssl, 0)
            else { return }
            Unmanaged<TLSEngine>.fromOpaque(engine).takeUnretainedValue().receivedKeyUpdate()
        }

    private func receivedKeyUpdate() {
        keyUpdates += 1
        // `SSL_read` would handle all that have arrived before it returns.
        if hasTooManyKeyUpdates { BIO_ctrl(incoming, BIO_CTRL_RESET, 0, nil) }
    }

    private var hasTooManyKeyUpdates: Bool { keyUpdates > Self.maximumKeyUpdates }

    /// Creates the server's end of a connection.
    ///
    /// - Throws: ``TLSError`` if OpenSSL is out of memory.
    package convenience init(_ context: TLSContext) throws {
        precondition(context.isServer)
        try self.init(of: context)
        SSL_set_accept_state(ssl)
    }

    /// Creates the client's end of a connection. The handshake begins with the first ``read(into:)``.
    ///
    /// - Parameters:
    ///   - host: The name or numeric address that the server's certificate must have.
    ///   - session: A session with the same server to resume, for a shorter handshake.
    /// - Throws: ``TLSError`` if OpenSSL is out of memory or rejects the name.
    package convenience init(
        _ context: TLSContext,
        connectingTo host: String,
        resuming session: TLSSession?
    ) throws {
        precondition(!context.isServer)
        try self.init(of: context)
        SSL_set_connect_state(ssl)
        // The dot at the end of an absolute name is not part of it in certificates (RFC 6066 §3).
        let name = host.hasSuffix(".") ? String(host.dropLast()) : host
        if SocketAddress(name) != nil {
            guard X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1 else {
                throw TLSError("\(name) is not an address")
            }
        } else {
            // The names of a certificate are the alternative ones; the common name is text (RFC 9525 §2).
            SSL_set_hostflags(
                ssl,
                UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)
            )
            guard SSL_set1_host(ssl, name) == 1, clibssl_set_server_name(ssl, name) == 1 else {
                throw TLSError("\(name) is not a name")
            }
        }
        if let session { SSL_set_session(ssl, session.pointer) }
    }

    deinit {
        SSL_free(ssl)
    }

    /// Whether the handshake is complete.
    package var isEstablished: Bool { SSL_is_init_finished(ssl) == 1 }

    /// Whether the handshake has begun: with the first ``read(into:)``.
    package var hasBegun: Bool { SSL_in_before(ssl) == 0 }

    /// Whether bytes were added that ``read(into:)`` has not read.
    package var hasUnread: Bool { SSL_pending(ssl) > 0 || clibssl_pending(incoming) > 0 }

    /// Adds bytes received from the socket.
    package func receive(_ ciphertext: UnsafeRawBufferPointer) {
        BIO_write(incoming, ciphertext.baseAddress, Int32(clamping: ciphertext.count))
    }

    /// Decrypts input and advances the handshake. Call it until it returns `needsInput`, then drain.
    package func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        guard !hasFailed else { return .failed }
        ERR_clear_error()
        let count = SSL_read(ssl, buffer.baseAddress, Int32(clamping: buffer.count))
        guard count <= 0 else { return .bytes(Int(count)) }
        guard !hasTooManyKeyUpdates else {
            fail()
            return .failed
        }
        switch SSL_get_error(ssl, count) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
            return .needsInput
        case SSL_ERROR_ZERO_RETURN:
            return .closed
        default:
            fail()
            return .failed
        }
    }

    /// Why the connection failed, for people. It names at most certificates.
    package private(set) var failure: String?

    private func fail() {
        hasFailed = true
        let verdict = SSL_get_verify_result(ssl)
        failure =
            verdict == X509_V_OK
            ? TLSError("TLS failed").description
            : "the certificate is not trusted: \(String(cString: X509_verify_cert_error_string(verdict)))"
        ERR_clear_error()
    }

    /// Encrypts all of `plaintext`. The outgoing BIO grows as needed.
    ///
    /// - Returns: Whether it succeeded.
    package func write(_ plaintext: UnsafeRawBufferPointer) -> Bool {
        var offset = 0
        while offset < plaintext.count {
            guard !hasFailed else { return false }
            ERR_clear_error()
            let rest = UnsafeRawBufferPointer(rebasing: plaintext[offset...])
            let count = SSL_write(ssl, rest.baseAddress, Int32(clamping: rest.count))
            guard count > 0 else {
                fail()
                return false
            }
            offset += Int(count)
        }
        return true
    }

    /// Moves the ciphertext for the peer to the end of `output`.
    package func drain(into output: inout [UInt8]) {
        let pending = Int(clibssl_pending(outgoing))
        guard pending > 0 else { return }
        let start = output.count
        output.append(contentsOf: repeatElement(0, count: pending))
        let count = output.withUnsafeMutableBytes {
            BIO_read(outgoing, $0.baseAddress?.advanced(by: start), Int32(clamping: pending))
        }
        output.removeLast(pending - max(0, Int(count)))
    }

    /// Sends `close_notify` and keeps the session resumable: OpenSSL drops a session whose `SSL` is freed without it.
    package func close() {
        guard !hasFailed, isEstablished else { return }
        ERR_clear_error()
        SSL_shutdown(ssl)
    }

    /// The session, for the next connection to the same server. `nil` if it cannot be resumed, or not yet: a server may
    /// send the ticket after the handshake.
    package var session: TLSSession? {
        guard let session = SSL_get1_session(ssl) else { return nil }
        let owned = TLSSession(owning: session)
        return SSL_SESSION_is_resumable(session) == 1 ? owned : nil
    }
}

/// What a client needs in order to resume a session with a server.
package final class TLSSession: @unchecked Sendable {
    // OpenSSL counts references to an `SSL_SESSION` atomically, and nothing changes it here.
    let pointer: OpaquePointer

    fileprivate init(owning pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit {
        SSL_SESSION_free(pointer)
    }
}
