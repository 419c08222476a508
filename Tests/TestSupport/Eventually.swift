package import Testing

/// Waits until `condition` holds. Records an issue if it does not hold in time.
///
/// - Parameters:
///   - what: The expected condition, as the issue's text: "the connection is closed".
///   - limit: The time after which the test fails. No test may depend on its length.
/// - Throws: ``NeverHappened`` when the condition does not hold in time, or the error that `condition` throws.
package func eventually(
    _ what: Comment,
    within limit: Duration = .seconds(60),
    sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    while try await !condition() {
        guard ContinuousClock.now < deadline else {
            Issue.record(what, sourceLocation: sourceLocation)
            throw NeverHappened()
        }
        try await Task.sleep(for: .milliseconds(20))
    }
}

/// An error that ends a test whose expected condition did not come true.
package struct NeverHappened: Error {
    package init() {}
}
