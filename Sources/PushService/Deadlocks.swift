internal import Postgres

/// Runs a statement again that PostgreSQL gave up: two that lock the same rows waited for each other, and it let one of them go first.
///
/// - Throws: What `body` throws, for a deadlock the third time.
func retryingDeadlocks<Result: Sendable>(_ body: () async throws -> Result) async throws -> Result {
    for _ in 1..<3 {
        do {
            return try await body()
        } catch let error as PostgresError where error.sqlState == "40P01" {
            continue
        }
    }
    return try await body()
}
