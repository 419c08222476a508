import Postgres
import TestSupport
import Testing

/// Statements that are declared as types.
@Suite struct PostgresStatementTests {
    private static let fruits = [
        Fruit(name: "apple", weight: 200), Fruit(name: "cherry", weight: 8), Fruit(name: "melon", weight: 1500),
    ]

    /// Runs `body` with an empty table of fruits.
    private func withTable(_ body: (PostgresPool) async throws -> Void) async throws {
        try await TestDatabase.withPool { pool, _ in
            try await pool.write("CREATE TABLE fruits (name text PRIMARY KEY, weight integer NOT NULL)")
            try await body(pool)
        }
    }

    @Test("Rows are decoded, on each kind of connection")
    func rows() async throws {
        try await withTable { pool in
            try await pool.write(InsertFruits(fruits: Self.fruits))
            let statement = FindHeavyFruits(minimum: 100)
            let heavy = [Self.fruits[0], Self.fruits[2]]
            #expect(try await pool.read(statement) == heavy)
            #expect(try await pool.write(statement) == heavy)
            #expect(try await pool.queryAlone(statement) == heavy)
            #expect(try await pool.withTransaction { try await $0.query(statement) } == heavy)
            #expect(try await pool.withConnection { try await $0.query(statement) } == heavy)
            #expect(try await pool.read(FindHeavyFruits(minimum: 2000)).isEmpty)
        }
    }

    @Test("A statement without rows returns the number of rows that it wrote")
    func writtenRows() async throws {
        try await withTable { pool in
            let inserted = try await pool.write(InsertFruits(fruits: Self.fruits))
            #expect(inserted == 3)
            let repeated = try await pool.write(InsertFruits(fruits: Self.fruits))
            #expect(repeated == 0)
            let deleted = try await pool.withTransaction { try await $0.query(DeleteHeavyFruits(minimum: 100)) }
            #expect(deleted == 2)
            let rest = try await pool.withConnection { try await $0.query(DeleteHeavyFruits(minimum: 0)) }
            #expect(rest == 1)
        }
    }

    @Test("A connection prepares a statement once, under its name, and with its name after the first word of the text")
    func preparedStatement() async throws {
        try await withTable { pool in
            let prepared = try await pool.withConnection { session in
                for minimum: Int32 in [1, 2] { try await session.query(FindHeavyFruits(minimum: minimum)) }
                try await session.query(DeleteHeavyFruits(minimum: 1))
                return try await session.query(
                    """
                    SELECT name, statement
                    FROM pg_prepared_statements
                    WHERE name LIKE '%Fruits%'
                    ORDER BY name
                    """
                ).map { try $0.decode(String.self, String.self) }
            }
            #expect(prepared.map(\.0) == ["DeleteHeavyFruits", "FindHeavyFruits"])
            let beginnings = prepared.map { String($0.1.prefix { $0 != "\n" }) }
            #expect(
                beginnings == [
                    "DELETE /* DeleteHeavyFruits */ FROM fruits", "SELECT /* FindHeavyFruits */ name, weight",
                ]
            )
        }
    }

    @Test("The error of a statement that fails, cannot be prepared or cannot be sent names the statement")
    func errors() async throws {
        try await withTable { pool in
            let failed = [
                try await postgresError { _ = try await pool.read(DivideByZero()) },
                try await postgresError { try await pool.write(DivideByZero()) },
                try await postgresError { _ = try await pool.queryAlone(DivideByZero()) },
                try await postgresError { try await pool.withTransaction { _ = try await $0.query(DivideByZero()) } },
            ]
            for error in failed {
                #expect(error.sqlState == "22012")
                #expect(error.statement == "DivideByZero")
            }

            let unprepared = try await postgresError { try await pool.write(DeleteNothing()) }
            #expect(unprepared.sqlState == "42P01")
            #expect(unprepared.statement == "DeleteNothing")

            let invalid = InsertFruits(fruits: [Fruit(name: "a\0b", weight: 1)])
            let unsent = try await postgresError { try await pool.write(invalid) }
            #expect(unsent.code == .invalidParameter)
            #expect(unsent.statement == "InsertFruits")
        }
    }

    @Test("A decoding error names its statement")
    func decodingErrors() async throws {
        try await withTable { pool in
            try await pool.write(InsertFruits(fruits: Self.fruits))
            let column = try await postgresError { _ = try await pool.read(ReadWeightsAsTexts()) }
            #expect(column.code == .decoding)
            #expect(column.statement == "ReadWeightsAsTexts")
            #expect(column.detail?.contains("\"weight\"") == true)

            let unexpected = try await postgresError { _ = try await pool.read(ReadWithoutDecoding()) }
            #expect(unexpected.code == .decoding)
            #expect(unexpected.statement == "ReadWithoutDecoding")
        }
    }
}

private struct Fruit: Equatable {
    static let columns: SQL = "name, weight"

    let name: String
    let weight: Int32
}

// MARK: Statements

private struct InsertFruits: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO fruits (name, weight)
        SELECT name, weight
        FROM unnest($1::text[], $2::integer[]) AS fruit (name, weight)
        ON CONFLICT DO NOTHING
        """

    let fruits: [Fruit]

    var parameters: [PostgresValue] { [.texts(fruits.map(\.name)), .int32s(fruits.map(\.weight))] }
}

private struct FindHeavyFruits: PostgresStatement {
    static let sql: SQL = """
        SELECT \(Fruit.columns)
        FROM fruits
        WHERE weight >= $1
        ORDER BY name
        """

    let minimum: Int32

    var parameters: [PostgresValue] { [.int32(minimum)] }

    static func decode(_ row: PostgresRow) throws -> Fruit {
        let (name, weight) = try row.decode(String.self, Int32.self)
        return Fruit(name: name, weight: weight)
    }
}

private struct DeleteHeavyFruits: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM fruits
        WHERE weight >= $1
        """

    let minimum: Int32

    var parameters: [PostgresValue] { [.int32(minimum)] }
}

private struct DivideByZero: PostgresStatement {
    static let sql: SQL = """
        SELECT 1 / 0
        """

    static func decode(_ row: PostgresRow) throws -> Int32 { try row.decode(Int32.self) }
}

/// Deletes from a table that does not exist.
private struct DeleteNothing: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM nothing
        """
}

/// Decodes a column as another type than it has.
private struct ReadWeightsAsTexts: PostgresStatement {
    static let sql: SQL = """
        SELECT weight
        FROM fruits
        """

    static func decode(_ row: PostgresRow) throws -> String { try row.decode(String.self) }
}

/// Returns rows, although it declares none.
private struct ReadWithoutDecoding: PostgresStatement {
    static let sql: SQL = """
        SELECT weight
        FROM fruits
        """
}
