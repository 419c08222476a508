package import Testing

/// Waits until `condition` holds. Fails the test if it does not in time.
///
/// - Parameters:
///   - what: What is waited for, as it reads after "did not come:".
///   - limit: A bound on the failure, not a part of the test.
/// - Throws: ``NeverHappened`` when it does not hold in time; what `condition` throws.
package func eventually(
    _ what: Comment,
    within limit: Duration = .seconds(30),
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

/// What a test waited for did not come, and the rest of the test makes no sense without it.
package struct NeverHappened: Error {
    package init() {}
}
