import Glibc

/// The bytes waiting to be sent on a socket, in order.
///
/// It is public instead of `package`, because only public members are inlined into other modules. Otherwise each use of
/// ``isEmpty`` would cost a call and a check of exclusive access to the connection, which is a class.
public struct OutputBuffer {
    /// The reason why sending ended.
    public enum SendResult {
        /// Everything was sent.
        case empty
        /// The socket has no more room.
        case blocked
        /// The connection is broken.
        case failed
    }

    /// The buffered bytes. Bytes before `start` have been sent; responses and ciphertext are appended.
    public var bytes: [UInt8] = []
    @usableFromInline private(set) var start = 0

    /// The maximum capacity that is kept once everything is sent.
    private let keptBytes: Int

    /// - Parameter keptBytes: The maximum capacity that is kept for what follows. With 0, an idle connection holds no
    ///   memory for output.
    package init(keeping keptBytes: Int = 0) {
        self.keptBytes = keptBytes
    }

    /// The number of bytes not sent yet.
    @inlinable public var count: Int { bytes.count - start }
    /// Whether everything was sent.
    @inlinable public var isEmpty: Bool { count == 0 }

    /// Sends as many bytes as the socket accepts.
    ///
    /// - Returns: The number of bytes sent and the reason why sending ended.
    package mutating func send(to descriptor: Int32) -> (taken: Int, result: SendResult) {
        let first = start
        while start < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress?.advanced(by: start), $0.count - start, Int32(MSG_NOSIGNAL))
            }
            if count >= 0 {
                start += count
            } else if errno == EAGAIN {
                return (start - first, .blocked)
            } else if errno != EINTR {
                return (start - first, .failed)
            }
        }
        let taken = start - first
        if bytes.capacity > keptBytes { bytes = [] } else { bytes.removeAll(keepingCapacity: true) }
        start = 0
        return (taken, .empty)
    }
}
