import EventLoop

/// Writes the body of a response in pieces, as fast as the client reads them.
package struct ResponseBodyWriter: Sendable {
    let connection: Connection
    /// The number of the response on its connection. A writer that outlives its response must not write into the next
    /// one.
    let answer: Int
    let isChunked: Bool

    /// Sends a piece at the end of the loop's tick, without waiting for the next piece.
    ///
    /// Suspends while much output is waiting for the client, so the memory cost is that output and one piece.
    ///
    /// - Throws: `CancellationError` if the client has gone away or the task was cancelled.
    package func write(_ piece: [UInt8]) async throws {
        try await Promise.value(on: connection.loop) { promise in
            connection.write(piece: piece, from: self, promise)
        }
    }
}
