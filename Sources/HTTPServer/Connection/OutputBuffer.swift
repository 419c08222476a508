internal import EventLoop
internal import Glibc

/// Bytes that wait for a socket to take them, in order.
struct OutputBuffer {
    enum SendResult {
        /// Everything has been taken.
        case empty
        /// The socket has no more room.
        case blocked
        /// The connection is broken.
        case failed
    }

    /// Where answers and ciphertext are appended; the socket has taken what stands before `start`.
    var bytes: [UInt8] = []
    private var start = 0

    /// The bytes that still wait.
    var count: Int { bytes.count - start }
    var isEmpty: Bool { count == 0 }

    /// Gives the socket as much as it takes.
    ///
    /// - Returns: How many bytes that was, and why it ended.
    mutating func send(to descriptor: Int32) -> (taken: Int, result: SendResult) {
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
        // An idle connection holds no memory for output.
        bytes = []
        start = 0
        return (taken, .empty)
    }
}
