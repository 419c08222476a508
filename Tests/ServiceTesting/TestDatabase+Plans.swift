import FoundationEssentials
import JSON
import Postgres
import TestSupport
import Testing

extension TestDatabase {
    /// Executes a statement with a generic plan, as on the connections for writes, and rolls it back. Returns the rows that all nodes of
    /// the plan have read, as `EXPLAIN (ANALYZE)` counts them.
    ///
    /// - Parameters:
    ///   - types: The types of its parameters, separated by commas.
    ///   - values: Their values, as SQL.
    package func rowsRead(by statement: String, types: String, values: String) async throws -> Double {
        let plan = try await pool.withTransaction {
            try await $0.execute(script: "SET LOCAL plan_cache_mode = force_generic_plan")
            try await $0.query("PREPARE explained (\(types)) AS \(statement)")
            try await $0.query("SAVEPOINT before")
            let plan = try await $0.query(
                "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE explained (\(values))"
            )
            try await $0.query("ROLLBACK TO before")
            try await $0.query("DEALLOCATE explained")
            return try #require(plan.first).decode(String.self)
        }
        return Self.rowsRead(try JSONValue(parsing: Array(plan.utf8))[0]?["Plan"])
    }

    /// Returns the rows that a node of a plan and those below it have read.
    private static func rowsRead(_ plan: JSONValue?) -> Double {
        func number(_ name: String) -> Double { plan?[name].flatMap { Double($0.description) } ?? 0 }
        let own = number("Actual Rows") + number("Rows Removed by Filter") + number("Rows Removed by Join Filter")
        return own * number("Actual Loops") + (plan?["Plans"]?.array ?? []).reduce(0) { $0 + rowsRead($1) }
    }
}
