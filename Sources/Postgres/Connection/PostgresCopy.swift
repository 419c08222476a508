internal import EventLoop

/// The data of one `COPY … FROM STDIN` on its way from a caller to the server.
///
/// The caller waits for one thing at a time: that the server asks for data, that it has taken a piece, or how it all
/// ended. The connection asks for as much of the piece as it may send, and says how far it has come.
final class PostgresCopy: @unchecked Sendable {
    // Touched on its loop only, which every method of the caller's side checks; the connection is an actor of that loop.

    /// What libpq is given at a time: all of it has left before it is given more, so that its buffer does not grow.
    static let sliceBytes = 64 * 1024

    private let loop: EventLoop
    /// Who waits: answered with rows at the end, with `nil` before.
    private var waiting: Promise<PostgresRows?>?
    /// The piece that is being sent, and how much of it libpq has taken.
    private var piece: [UInt8] = []
    private var offset = 0
    /// How it ended.
    private var result: Swift.Result<PostgresRows?, any Error>?
    /// Since when the server has taken nothing of what is to be sent, in the loop's milliseconds; `nil` when there is
    /// nothing to be sent.
    var blockedSince: UInt64?

    init(loop: EventLoop) {
        self.loop = loop
    }

    // MARK: The caller's side

    /// Has `promise` answered by the next step. What had failed before fails it at once.
    ///
    /// - Returns: Whether that step is still to come.
    func wait(_ promise: Promise<PostgresRows?>) -> Bool {
        loop.preconditionOnLoop()
        if let result {
            promise.complete(result)
            return false
        }
        precondition(waiting == nil || waiting?.isAbandoned == true, "the data of a COPY is written by one task")
        waiting = promise
        return true
    }

    /// It is over.
    func end(_ result: Swift.Result<PostgresRows, PostgresError>) {
        loop.preconditionOnLoop()
        let result = result.map(Optional.some).mapError { $0 as any Error }
        self.result = result
        dropData()
        waiting?.complete(result)
        waiting = nil
    }

    // MARK: The connection's side

    /// The caller may go on.
    func proceed() {
        blockedSince = nil
        waiting?.complete(.success(nil))
        waiting = nil
    }

    func append(_ bytes: [UInt8]) {
        piece.append(contentsOf: bytes)
    }

    /// Forgets what has not been sent.
    func dropData() {
        piece = []
        offset = 0
        blockedSince = nil
    }

    /// Gives the next bytes to `body`, or returns `nil` when there are none.
    func withNextSlice<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
        guard offset < piece.count else { return nil }
        return piece.withUnsafeBytes { bytes in
            body(UnsafeRawBufferPointer(rebasing: bytes[offset..<min(offset + Self.sliceBytes, bytes.count)]))
        }
    }

    /// libpq has taken the slice.
    func takeSlice() {
        offset = min(offset + Self.sliceBytes, piece.count)
        if offset == piece.count {
            piece = []
            offset = 0
        }
    }
}
