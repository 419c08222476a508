package import EventLoop

/// An HTTP/1.1 client, with or without TLS, on one event loop.
///
/// Each loop of a process has its own client with its own connections, so a request needs neither a lock nor a hop.
/// ``send(_:)`` may be called from any task; a task on the client's loop pays for no thread switch.
///
/// Connections are kept alive and reused. Hosts are verified, redirects are not followed, bodies are not decompressed.
/// No proxy, cookie or password from the environment is used: a proxy is set by ``HTTPClientSettings/proxy``.
///
/// Call ``shutdown()`` before the loop is stopped. A client that is released without it shuts itself down.
package final class HTTPClient: Sendable {
    private let loop: EventLoop
    private let transfers: TransferQueue

    /// Creates a client without connections. May be called from any thread.
    package init(settings: HTTPClientSettings = HTTPClientSettings(), loop: EventLoop) {
        self.loop = loop
        transfers = TransferQueue(settings: settings, loop: loop)
    }

    deinit {
        // No caller is left, and nothing else references this queue.
        loop.execute { [transfers] in transfers.shutDown() }
    }

    /// Sends a request and returns its response, whatever its status.
    ///
    /// If a kept-alive connection is lost before any byte of a response, the request is sent again on a new connection.
    /// A request that may already have left (``HTTPClientError/mayHaveBeenSent``) is only sent again if it is idempotent
    /// (``HTTPClientRequest/isIdempotent``), or a GET or HEAD without a body. Cancelling the task ends the request at
    /// once and closes its connection.
    ///
    /// - Throws: ``HTTPClientError`` if there is no response. Its ``HTTPClientError/mayHaveBeenSent`` says whether the
    ///   host may have acted on the request nevertheless.
    package func send(_ request: HTTPClientRequest) async throws(HTTPClientError) -> HTTPClientResponse {
        let transfer = Transfer(request)
        guard let upload = request.upload else { return try await outcome(of: transfer).get() }
        // Cancelled and awaited at the end of this scope.
        async let _: Void = supply(upload, to: transfer)
        let result = await outcome(of: transfer)
        return try result.get()
    }

    /// Sends a request, and calls `body` with its response as soon as its head has arrived, whatever its status. The body of
    /// the response may have any length. What `body` does not read of it is dropped.
    ///
    /// The time limit of the request applies to the head, and then to each wait for more of the body.
    ///
    /// - Throws: ``HTTPClientError`` if there is no response, and any error that `body` throws.
    package func stream<Result>(
        _ request: HTTPClientRequest,
        _ body: (HTTPClientStream) async throws -> Result
    ) async throws -> Result {
        let transfer = Transfer(request, isStreamed: true)
        let head = try await outcome(of: transfer).get()
        defer { loop.execute { [transfers] in transfers.cancel(transfer) } }
        return try await body(HTTPClientStream(head, transfer, transfers, loop))
    }

    private func outcome(of transfer: Transfer) async -> TransferQueue.Outcome {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                loop.execute { [transfers] in transfers.submit(transfer, continuation) }
            }
        } onCancel: {
            loop.execute { [transfers] in transfers.cancel(transfer) }
        }
    }

    /// Reads an upload, each piece when the previous one has left.
    private func supply(_ upload: HTTPClientUpload, to transfer: Transfer) async {
        while await isReadyForUpload(transfer) {
            let piece = try? await upload.next()
            loop.execute { [transfers] in transfers.upload(piece ?? [], of: transfer) }
        }
    }

    /// Waits until a piece of the upload can be sent. Returns `false` once no further piece is wanted.
    private func isReadyForUpload(_ transfer: Transfer) async -> Bool {
        await withCheckedContinuation { continuation in
            loop.execute { transfer.awaitUpload(continuation) }
        }
    }

    /// Ends every request with the error `shutDown` and closes all connections. Later requests fail with the same
    /// error.
    package func shutdown() async {
        await loop.result { [transfers] in transfers.shutDown() }
    }
}
