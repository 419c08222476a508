package import EventLoop

/// Calls other servers over HTTP/1.1, with or without TLS, on one loop.
///
/// Connections are libcurl's, whose multi interface the loop drives: it looks names up, connects, and speaks TLS. What is said over them
/// is ours (docs/decisions/0005). A client belongs to one loop: each loop of a process
/// has its own, with connections of its own, so that a request is made and answered without a lock or a hop.
/// ``send(_:)`` may be called from any task; from one that runs on the loop it costs no thread switch.
///
/// Connections are kept and used again. Hosts are verified, redirects are not followed, nothing is unpacked, no proxy,
/// cookie or password of the environment is used.
///
/// A client is shut down with ``shutdown()`` before its loop is stopped; one that is dropped shuts itself down.
package final class HTTPClient: Sendable {
    private let loop: EventLoop
    private let transfers: TransferQueue

    /// A client with no connections yet. Callable from any thread.
    ///
    /// - Throws: ``HTTPClientError`` with `invalidSettings` when the file of certificates cannot be read, with
    ///   `internalFailure` when libcurl is out of memory.
    package init(settings: HTTPClientSettings = HTTPClientSettings(), loop: EventLoop) throws(HTTPClientError) {
        self.loop = loop
        transfers = try TransferQueue(settings: settings, loop: loop)
    }

    deinit {
        // The last of the callers is gone, and nobody else has this queue.
        loop.execute { [transfers] in transfers.shutDown() }
    }

    /// Sends a request and returns its response, of whatever status.
    ///
    /// A request is sent once, or not at all: what had left is never sent again, unless it only reads or says that it may be
    /// (``HTTPClientRequest/isIdempotent``). A cancelled task takes its request along at once, and closes the connection that it
    /// was on.
    ///
    /// - Throws: ``HTTPClientError`` when there is no response; its ``HTTPClientError/bodyBytesLeft`` tells whether the
    ///   host may have acted on the request all the same.
    package func send(_ request: HTTPClientRequest) async throws(HTTPClientError) -> HTTPClientResponse {
        let transfer = Transfer(request)
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                loop.execute { [transfers] in transfers.begin(transfer, continuation) }
            }
        } onCancel: {
            loop.execute { [transfers] in transfers.cancel(transfer) }
        }
        return try outcome.get()
    }

    /// Ends every request with the error `shutDown` and closes all connections. Later requests fail in the same way.
    package func shutdown() async {
        await withCheckedContinuation { continuation in
            loop.execute { [transfers] in
                transfers.shutDown()
                continuation.resume()
            }
        }
    }
}
