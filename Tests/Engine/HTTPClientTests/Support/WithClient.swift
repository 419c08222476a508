import EventLoop
import HTTPClient

/// Creates a client on a loop of its own for a test, and shuts both down afterwards.
func withClient<Result>(
    // Longer than a busy machine takes for any request.
    _ settings: HTTPClientSettings = HTTPClientSettings(totalTimeout: .seconds(60)),
    _ body: (HTTPClient, EventLoop) async throws -> Result
) async throws -> Result {
    let group = try EventLoopGroup(count: 1)
    defer { group.shutdown() }
    let loop = group.loops[0]
    let client = HTTPClient(settings: settings, loop: loop)
    do {
        let result = try await body(client, loop)
        await client.shutdown()
        return result
    } catch {
        await client.shutdown()
        throw error
    }
}

/// Runs a script as a server for the duration of `body`.
func withServer<Result>(
    _ script: @escaping @Sendable (RawConnection) -> Void,
    _ body: (RawServer) async throws -> Result
) async throws -> Result {
    let server = try RawServer(script)
    defer { server.stop() }
    return try await body(server)
}

/// Sends a request that is expected to fail. Returns its error, or `nil` if it succeeds.
func failure(_ client: HTTPClient, _ request: HTTPClientRequest) async -> HTTPClientError? {
    do throws(HTTPClientError) {
        _ = try await client.send(request)
        return nil
    } catch {
        return error
    }
}

/// Sends a request. Returns the status of its response, or `nil` if there is none.
func status(_ client: HTTPClient, _ request: HTTPClientRequest) async -> Int? {
    try? await client.send(request).status
}
