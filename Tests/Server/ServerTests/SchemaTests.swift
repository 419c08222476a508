import ServiceTesting
import TestSupport
import Testing

/// Tests of the whole schema that the migrations create.
@Suite(.timeLimit(.minutes(5))) struct SchemaTests {
    @Test("Every function has a fixed search_path, so that a temporary table cannot shadow a table")
    func searchPath() async throws {
        try await Slots.servers.with {
            try await TestDatabase.with { database in
                let functions = """
                    FROM pg_proc
                    WHERE pronamespace = current_schema()::regnamespace
                        AND prokind = 'f'
                        -- A standard body is bound to its tables when the function is created.
                        AND prosqlbody IS NULL
                    """
                #expect(try await database.integer("SELECT count(*) \(functions)") >= 1)
                let unset = try await database.text(
                    """
                    SELECT coalesce(string_agg(proname, ' '), '')
                    FROM (SELECT proname, proconfig \(functions)) AS function
                    WHERE NOT coalesce('search_path=public, pg_temp' = ANY (proconfig), false)
                    """
                )
                #expect(unset == "")
            }
        }
    }
}
