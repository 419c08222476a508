package import Testing

/// Waits until `condition` holds. Records an issue if it does not hold in time.
///
/// The condition is checked every 20 ms at first, and less often the longer it takes, up to every 250 ms: a check may be a
/// request with several statements, which would take the processor time that the condition needs to come true.
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
    let start = ContinuousClock.now
    while try await !condition() {
        let waited = start.duration(to: .now)
        guard waited < limit else {
            Issue.record(what, sourceLocation: sourceLocation)
            throw NeverHappened()
        }
        try await Task.sleep(for: min(max(.milliseconds(20), waited / 8), .milliseconds(250)))
    }
}

/// An error that ends a test whose expected condition did not come true.
package struct NeverHappened: Error {
    package init() {}
}
