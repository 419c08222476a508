import FoundationEssentials
import Postgres

/// Lists the servers that hold a lease, the oldest first. Each holds one of the queue of pushes.
package struct ListServers: PostgresStatement {
    package static let sql: SQL = """
        SELECT host, version, started_at
        FROM work_leases
        WHERE queue = 'pushes'
            AND ends_at > now()
        ORDER BY started_at
        """

    package struct Row: Sendable {
        package let host: String
        package let version: String
        package let startedAt: Date

        package init(host: String, version: String, startedAt: Date) {
            self.host = host
            self.version = version
            self.startedAt = startedAt
        }
    }

    package init() {}

    package static func decode(_ row: PostgresRow) throws -> Row {
        try row.decode { try Row(host: $0.next(), version: $0.next(), startedAt: $0.next()) }
    }
}
