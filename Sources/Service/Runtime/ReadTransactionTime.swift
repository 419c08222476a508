import FoundationEssentials
import Postgres

/// Reads the time at which the transaction began.
package struct ReadTransactionTime: PostgresStatement {
    package static let sql: SQL = """
        SELECT now()
        """

    package static func decode(_ row: PostgresRow) throws -> Date { try row.decode(Date.self) }

    package init() {}
}
