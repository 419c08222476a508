internal import CLibssl

/// The TLS of one connection, as bytes in and bytes out, without a socket.
///
/// It works between two memory BIOs. Plain and encrypted connections therefore share the socket code, and TLS can be
/// tested without a socket. It is confined to its connection's loop, because two threads must not use an `SSL`.
final class TLSEngine {
    /// The result of a read.
    enum ReadResult: Equatable {
        case bytes(Int)
        /// All input was read, or the handshake needs more.
        case needsInput
        /// The peer has announced that it will send no more (`close_notify`).
        case closed
        /// The peer does not speak TLS or violated the protocol. The connection must be closed after the output of
        /// ``drain(into:)`` is sent.
        case failed
    }

    private let ssl: OpaquePointer
    /// Ciphertext from the peer. `ssl` owns this BIO and `outgoing`.
    private let incoming: OpaquePointer
    /// Ciphertext for the peer.
    private let outgoing: OpaquePointer
    private var hasFailed = false

    /// Creates the server's end of a connection.
    ///
    /// - Throws: ``TLSError`` if OpenSSL is out of memory.
    init(_ context: TLSContext) throws {
        guard let ssl = SSL_new(context.pointer), let incoming = BIO_new(BIO_s_mem()),
            let outgoing = BIO_new(BIO_s_mem())
        else { throw TLSError("out of memory") }
        self.ssl = ssl
        self.incoming = incoming
        self.outgoing = outgoing
        SSL_set_bio(ssl, incoming, outgoing)
        SSL_set_accept_state(ssl)
    }

    deinit {
        SSL_free(ssl)
    }

    /// Whether the handshake is complete.
    var isEstablished: Bool { SSL_is_init_finished(ssl) == 1 }

    /// Whether the peer's first bytes have been read.
    var hasBegun: Bool { SSL_in_before(ssl) == 0 }

    /// Adds bytes received from the socket.
    func receive(_ ciphertext: UnsafeRawBufferPointer) {
        BIO_write(incoming, ciphertext.baseAddress, Int32(clamping: ciphertext.count))
    }

    /// Decrypts input and advances the handshake. Call it until it returns `needsInput`, then drain.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        guard !hasFailed else { return .failed }
        ERR_clear_error()
        let count = SSL_read(ssl, buffer.baseAddress, Int32(clamping: buffer.count))
        guard count <= 0 else { return .bytes(Int(count)) }
        switch SSL_get_error(ssl, count) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
            return .needsInput
        case SSL_ERROR_ZERO_RETURN:
            return .closed
        default:
            hasFailed = true
            ERR_clear_error()
            return .failed
        }
    }

    /// Encrypts all of `plaintext`. The outgoing BIO grows as needed.
    ///
    /// - Returns: Whether it succeeded.
    func write(_ plaintext: UnsafeRawBufferPointer) -> Bool {
        var offset = 0
        while offset < plaintext.count {
            guard !hasFailed else { return false }
            ERR_clear_error()
            let rest = UnsafeRawBufferPointer(rebasing: plaintext[offset...])
            let count = SSL_write(ssl, rest.baseAddress, Int32(clamping: rest.count))
            guard count > 0 else {
                hasFailed = true
                ERR_clear_error()
                return false
            }
            offset += Int(count)
        }
        return true
    }

    /// Moves the ciphertext for the peer to the end of `output`.
    func drain(into output: inout [UInt8]) {
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
    func close() {
        guard !hasFailed, isEstablished else { return }
        ERR_clear_error()
        SSL_shutdown(ssl)
    }
}
