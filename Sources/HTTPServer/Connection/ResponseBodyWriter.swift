internal import EventLoop

/// Writes the body of a response in pieces, as fast as the client takes them.
package struct ResponseBodyWriter: Sendable {
    let connection: Connection
    /// Which of the connection's answers this is: a writer that outlives its own must not write into the next.
    let answer: Int
    let isChunked: Bool

    /// Sends a piece; it leaves at the end of the loop's tick, without waiting for the next piece.
    ///
    /// Suspends while the client has much still to take, so that a writer costs no more memory than that and one piece.
    ///
    /// - Throws: `CancellationError` when the client has gone away or the task was cancelled.
    package func write(_ piece: [UInt8]) async throws {
        try await Promise.value(on: connection.loop) { promise in
            connection.write(piece: piece, from: self, promise)
        }
    }
}
