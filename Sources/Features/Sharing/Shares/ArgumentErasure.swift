import Endpoints
package import FoundationEssentials
package import Postgres

/// A step of the erasure of a user from custom arguments: the next rows of a table, of which those lose an argument in which
/// its value is the user's id. There is no index for this, so all rows are read.
package struct ArgumentErasure: Sendable {
    /// The number of rows that one statement reads.
    private static let rowsPerStatement: Int64 = 10_000

    let userID: Int64
    let argument: String
    /// The id of the last row of the step before.
    let after: UUID

    package init(userID: Int64, argument: String, after: UUID) {
        self.userID = userID
        self.argument = argument
        self.after = after
    }

    fileprivate var parameters: [PostgresValue] {
        [.uuid(after), .text(argument), .text(String(userID)), .int64(Self.rowsPerStatement)]
    }
}

/// A statement that carries out a step.
///
/// Its parameters are the id after which the step begins, the argument, the user's id as text, and the number of rows. It
/// returns the id of the last row that it read; no row if there are no more.
package protocol ArgumentErasureStatement: PostgresStatement where Row == UUID {
    init(step: ArgumentErasure)

    var step: ArgumentErasure { get }
}

extension ArgumentErasureStatement {
    package var parameters: [PostgresValue] { step.parameters }
    package static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }

    /// Removes an argument from all rows in which its value is the user's id, in steps.
    package static func erase(_ userID: Int64, fromArgument argument: String, _ pool: PostgresPool) async throws {
        var after: UUID? = .zero
        while let last = after {
            let step = ArgumentErasure(userID: userID, argument: argument, after: last)
            after = try await pool.write(Self(step: step)).first
        }
    }
}
