package import Testing

/// Calls `body` with longer and longer lifetimes, in seconds, until it returns `true`.
///
/// - Parameter body: Uses something with this lifetime. Returns `false` if it had expired before its first use.
package func withLifetime(
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: (Int64) async throws -> Bool
) async throws {
    for seconds: Int64 in [2, 4, 8, 16, 32] where try await body(seconds) { return }
    Issue.record("Everything had expired before its first use.", sourceLocation: sourceLocation)
}
