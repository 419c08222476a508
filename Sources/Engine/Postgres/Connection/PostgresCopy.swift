import EventLoop

/// The data of one `COPY … FROM STDIN` on its way from a caller to the server.
///
/// The caller waits for one step at a time: the server's request for data, the sending of a piece, or the end of the
/// statement. The connection takes slices of the piece as it can send them, and reports its progress.
final class PostgresCopy: @unchecked Sendable {
    // Only used on its loop. The methods of the caller's side check that; the connection is an actor of that loop.

    /// The number of bytes that libpq gets at a time. They leave before it gets more, so that its buffer does not grow.
    static let sliceBytes = 64 * 1024

    private let loop: EventLoop
    /// The promise of the waiting caller. It is completed with rows at the end, with `nil` before.
    private var waiting: Promise<PostgresRows?>?
    /// The piece that is being sent. libpq has accepted its first ``offset`` bytes.
    private var piece: [UInt8] = []
    private var offset = 0
    /// The result of the statement, once it has ended.
    private var result: Swift.Result<PostgresRows?, any Error>?
    /// The time since which the server has accepted no data, in the loop's milliseconds; `nil` if there is nothing to
    /// send.
    var blockedSince: UInt64?

    init(loop: EventLoop) {
        self.loop = loop
    }

    // MARK: The caller's side

    /// Completes `promise` at the next step, or at once if the statement has ended.
    ///
    /// - Returns: Whether that step is still to come.
    func wait(_ promise: Promise<PostgresRows?>) -> Bool {
        loop.preconditionOnLoop()
        if let result {
            promise.complete(result)
            return false
        }
        precondition(
            waiting == nil || waiting?.isAbandoned == true,
            "the data of a COPY must be written by one task at a time"
        )
        waiting = promise
        return true
    }

    /// Records the result of the statement.
    func complete(_ result: Swift.Result<PostgresRows, PostgresError>) {
        loop.preconditionOnLoop()
        let result = result.map(Optional.some).mapError { $0 as any Error }
        self.result = result
        dropData()
        waiting?.complete(result)
        waiting = nil
    }

    // MARK: The connection's side

    /// Lets the caller continue.
    func proceed() {
        blockedSince = nil
        waiting?.complete(.success(nil))
        waiting = nil
    }

    func append(_ bytes: [UInt8]) {
        piece.append(contentsOf: bytes)
    }

    /// Drops the data that has not been sent.
    func dropData() {
        piece = []
        offset = 0
        blockedSince = nil
    }

    /// Passes the next slice to `body`. Returns `nil` if there is none.
    func withNextSlice<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
        guard offset < piece.count else { return nil }
        return piece.withUnsafeBytes { bytes in
            body(UnsafeRawBufferPointer(rebasing: bytes[offset..<min(offset + Self.sliceBytes, bytes.count)]))
        }
    }

    /// Moves to the next slice after libpq has accepted one.
    func advance() {
        offset = min(offset + Self.sliceBytes, piece.count)
        if offset == piece.count {
            piece = []
            offset = 0
        }
    }
}
