package import EventLoop
import Glibc

/// A client's connected socket, with or without TLS: plain bytes go in and come out.
///
/// Confined to its loop. The owner waits for the socket.
package final class Channel {
    /// The reason why reading ended.
    package enum ReadResult {
        /// Everything that has arrived was read, or as much as is read at a time.
        case again
        /// The peer has announced that it will send no more: by closing its side, or with TLS by saying so.
        case closed
        /// The connection was lost.
        case lost
    }

    /// The largest output buffer that is kept for the next request.
    private static let keptBytes = 64 * 1024
    /// The most reads of the socket at a time, each of up to 64 KiB.
    private static let maximumReads = 16

    /// The socket's number, to wait for it.
    package let socket: Int32
    private var descriptor: FileDescriptor?
    /// The encryption, once it has begun.
    package private(set) var tls: TLSEngine?
    private var output = OutputBuffer(keeping: Channel.keptBytes)

    /// Takes ownership of a connected socket.
    package init(_ descriptor: consuming FileDescriptor) {
        socket = descriptor.rawValue
        self.descriptor = consume descriptor
    }

    /// Encrypts all that follows. A client begins the handshake with ``decrypt(_:_:_:)``, since ``read(into:_:)`` does nothing
    /// until a byte has arrived.
    package func encrypt(_ tls: TLSEngine) {
        self.tls = tls
    }

    /// Whether bytes were received that ``read(into:_:)`` has not passed on.
    package var hasUnread: Bool { tls?.hasUnread == true }

    /// Returns whether no plain byte has been received that ``read(into:_:)`` has not passed on, and no end of the connection.
    ///
    /// - Parameter scratch: Memory that is overwritten.
    package func isQuiet(_ scratch: UnsafeMutableRawBufferPointer) -> Bool {
        guard let tls, tls.hasUnread else { return true }
        var isQuiet = true
        let result = decrypt(tls, scratch) { _ in
            isQuiet = false
            return false
        }
        return isQuiet && result == nil
    }

    /// Whether nothing waits to be sent.
    package var isFlushed: Bool { output.isEmpty }

    /// Appends the plain bytes that `body` writes to what is to be sent. Returns whether that succeeded.
    package func write(_ body: (inout [UInt8]) -> Void) -> Bool {
        guard let tls else {
            body(&output.bytes)
            return true
        }
        var bytes: [UInt8] = []
        body(&bytes)
        guard bytes.withUnsafeBytes({ tls.write($0) }) else { return false }
        tls.drain(into: &output.bytes)
        return true
    }

    /// Sends as much as the socket accepts. Returns the number of bytes sent, which with TLS are encrypted.
    package func flush() -> (taken: Int, result: OutputBuffer.SendResult) {
        output.send(to: socket)
    }

    /// Reads what has arrived, and calls `receive` with each run of plain bytes, until it returns `false`.
    ///
    /// Output that the TLS protocol itself adds is to be flushed afterwards.
    ///
    /// - Parameter scratch: Memory whose contents are valid until `receive` returns.
    package func read(
        into scratch: UnsafeMutableRawBufferPointer,
        _ receive: (UnsafeRawBufferPointer) -> Bool
    ) -> ReadResult {
        // What an earlier call has left.
        if let tls, tls.hasUnread, let end = decrypt(tls, scratch, receive) { return end }
        // Not without end, since a peer that sends without pause would keep the loop from all other sockets.
        for _ in 0..<Self.maximumReads {
            let count = recv(socket, scratch.baseAddress, scratch.count, 0)
            if count > 0 {
                let bytes = UnsafeRawBufferPointer(rebasing: scratch[..<count])
                if let tls {
                    tls.receive(bytes)
                    // The engine has its own copy, so that the memory can receive the plain bytes.
                    if let end = decrypt(tls, scratch, receive) { return end }
                } else if !receive(bytes) {
                    return .again
                }
                // If there is more, the loop says so again.
                if count < scratch.count { return .again }
            } else if count == 0 {
                // Without its announcement, the end of a TLS connection may be someone else's doing.
                return tls == nil ? .closed : .lost
            } else if errno == EAGAIN {
                return .again
            } else if errno != EINTR {
                return .lost
            }
        }
        return .again
    }

    /// Passes decrypted bytes on. Returns `nil` if more input is needed.
    package func decrypt(
        _ tls: TLSEngine,
        _ scratch: UnsafeMutableRawBufferPointer,
        _ receive: (UnsafeRawBufferPointer) -> Bool
    ) -> ReadResult? {
        defer { tls.drain(into: &output.bytes) }
        while true {
            switch tls.read(into: scratch) {
            case .bytes(let count):
                guard receive(UnsafeRawBufferPointer(rebasing: scratch[..<count])) else { return .again }
            case .needsInput: return nil
            case .closed: return .closed
            case .failed: return .lost
            }
        }
    }

    /// Closes the socket. With TLS, the peer is told, and the session stays resumable. The owner no longer waits for the
    /// socket.
    package func close() {
        guard descriptor != nil else { return }
        if let tls, tls.isEstablished {
            tls.close()
            // What has not left yet must not leave now: the owner may have reported that no byte did.
            if output.isEmpty, tls.failure == nil {
                tls.drain(into: &output.bytes)
                _ = output.send(to: socket)
            }
        }
        descriptor = nil
    }
}
