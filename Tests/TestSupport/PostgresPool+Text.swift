package import Postgres

// Tests write statements as plain texts and leave out the label `text:`, which marks such a text in the sources.

extension PostgresPool {
    /// Runs a text as ``read(text:_:)`` does.
    package func read(_ text: String, _ parameters: [PostgresValue] = []) async throws -> PostgresRows {
        try await read(text: text, parameters)
    }

    /// Runs a text as ``write(text:_:)`` does.
    @discardableResult
    package func write(_ text: String, _ parameters: [PostgresValue] = []) async throws -> PostgresRows {
        try await write(text: text, parameters)
    }

    /// Returns the columns of the only row of a query, by name, as PostgreSQL writes them in JSON.
    package func columns(ofRow query: String, _ parameters: [PostgresValue]) async throws -> [String: String] {
        let columns = try await read(
            "SELECT key, value::text FROM (\(query)) AS row CROSS JOIN jsonb_each(to_jsonb(row))",
            parameters
        )
        return try Dictionary(uniqueKeysWithValues: columns.map { try $0.decode(String.self, String.self) })
    }
}

extension PostgresSession {
    /// Runs a text as ``query(text:_:)`` does.
    @discardableResult
    package func query(_ text: String, _ parameters: [PostgresValue] = []) async throws -> PostgresRows {
        try await query(text: text, parameters)
    }
}

extension PostgresTransaction {
    /// Runs a text as ``query(text:_:)`` does.
    @discardableResult
    package func query(_ text: String, _ parameters: [PostgresValue] = []) async throws -> PostgresRows {
        try await query(text: text, parameters)
    }
}
