internal import CLibssl

/// One connection's TLS as bytes in and bytes out: the socket is somebody else's.
///
/// Between two memory BIOs, so that plain and encrypted connections share one way to the socket and TLS is tested without one.
/// Confined to its connection's loop, as an `SSL` must not be used by two threads.
final class TLSEngine {
    /// What a read found.
    enum ReadResult: Equatable {
        case bytes(Int)
        /// Everything that has come is read, or the handshake goes on.
        case needsInput
        /// The peer said that it will send no more.
        case closed
        /// The peer does not speak TLS, or broke it: the connection is to be closed after what ``drain(into:)`` still has.
        case failed
    }

    private let ssl: OpaquePointer
    /// Ciphertext from the peer. Owned by `ssl`, as is `outgoing`.
    private let incoming: OpaquePointer
    /// Ciphertext for the peer.
    private let outgoing: OpaquePointer
    private var hasFailed = false

    /// The server's end of a connection.
    ///
    /// - Throws: ``TLSError`` when OpenSSL is out of memory.
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

    /// Whether the handshake is over.
    var isEstablished: Bool { SSL_is_init_finished(ssl) == 1 }

    /// Whether the peer's first bytes have been read.
    var hasBegun: Bool { SSL_in_before(ssl) == 0 }

    /// Hands over bytes that came from the socket.
    func receive(_ ciphertext: UnsafeRawBufferPointer) {
        BIO_write(incoming, ciphertext.baseAddress, Int32(clamping: ciphertext.count))
    }

    /// Reads what the peer has said, and moves the handshake on. To be called until it needs input; drain after it.
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

    /// Encrypts all of `plaintext`: the outgoing BIO grows as needed.
    ///
    /// - Returns: Whether it could.
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

    /// Moves ciphertext that is ready for the peer to the end of `output`.
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

    /// Says goodbye (`close_notify`), and lets the session be resumed: OpenSSL drops a session whose `SSL` was freed without it.
    func close() {
        guard !hasFailed, isEstablished else { return }
        ERR_clear_error()
        SSL_shutdown(ssl)
    }
}
