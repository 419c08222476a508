/// A statement of SQL, declared as a type: its text, its parameters, and the rows that it returns.
///
///     /// Reads when an operator key was last used.
///     struct ReadLastUse: PostgresStatement {
///         static let sql: SQL = """
///             SELECT last_used_at
///             FROM operator_keys
///             WHERE sha256 = $1
///             """
///
///         let sha256: [UInt8]
///
///         var parameters: [PostgresValue] { [.bytes(sha256)] }
///         static func decode(_ row: PostgresRow) throws -> Date? { try row.decode(Date?.self) }
///     }
///
/// The type's name identifies the statement for an operator: in errors, as the name of the prepared statement in
/// PostgreSQL's log of slow statements, and as a comment in the text that `pg_stat_statements` and `pg_stat_activity`
/// show. A connection prepares each statement once.
package protocol PostgresStatement: Sendable {
    /// The value of one row. Omit it for a statement that returns no rows.
    associatedtype Row: Sendable = Never

    /// The text, with `$1` for the first of ``parameters``.
    static var sql: SQL { get }

    /// The values of `$1`, `$2` and so on. Their types are the same for each value of the statement.
    var parameters: [PostgresValue] { get }

    /// Decodes one row.
    ///
    /// - Throws: ``PostgresError/Code/decoding`` for columns that differ from those expected.
    static func decode(_ row: PostgresRow) throws -> Row
}

extension PostgresStatement {
    /// The name of the type, at most 63 bytes: PostgreSQL truncates longer names.
    package static var name: String { String(describing: Self.self) }

    package var parameters: [PostgresValue] { [] }

    /// Decodes all rows.
    ///
    /// - Throws: ``PostgresError/Code/decoding``, with the name of the statement.
    static func decode(_ rows: PostgresRows) throws -> [Row] {
        do {
            return try rows.map(decode)
        } catch let error as PostgresError where error.statement == nil {
            throw PostgresError(error.code, message: error.message, detail: error.detail, statement: name)
        }
    }
}

extension PostgresStatement where Row == Never {
    package static func decode(_ row: PostgresRow) throws -> Never {
        throw PostgresError(
            .decoding,
            detail: "the statement returned a row but is declared without rows",
            statement: name
        )
    }
}

/// The text of a statement, as a literal in the source code.
///
/// Only other literals of this type can be interpolated, such as columns that several statements list. An interpolated value
/// does not compile, so that none can be spliced into a statement.
package struct SQL: Sendable, ExpressibleByStringInterpolation {
    let text: String

    package init(stringLiteral text: String) {
        self.text = text
    }

    package init(stringInterpolation: StringInterpolation) {
        text = stringInterpolation.text
    }

    package struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        package init(literalCapacity: Int, interpolationCount: Int) {}

        package mutating func appendLiteral(_ literal: String) {
            text += literal
        }

        package mutating func appendInterpolation(_ part: SQL) {
            text += part.text
        }
    }
}

/// The text of a statement as connections prepare and run it: declared, or made at run time.
struct StatementText: Sendable {
    let text: String
    /// The declaration of the statement; `nil` for a text made at run time.
    let declaration: (any PostgresStatement.Type)?

    init<Statement: PostgresStatement>(_ statement: Statement.Type) {
        text = statement.sql.text
        declaration = statement
    }

    init(text: String) {
        self.text = text
        declaration = nil
    }

    /// The text with the statement's name as a comment after its first word.
    ///
    /// There the name survives `pg_stat_activity`, which truncates texts, and versions of `pg_stat_statements` that
    /// ignore leading comments.
    var annotated: String {
        guard let declaration, let end = text.firstIndex(where: \.isWhitespace) else { return text }
        return "\(text[..<end]) /* \(declaration.name) */\(text[end...])"
    }
}

extension StatementText: CustomStringConvertible {
    /// The name, or the text if it was made at run time.
    var description: String { declaration?.name ?? text }
}

extension StatementText: Equatable {
    static func == (statement: StatementText, other: StatementText) -> Bool { statement.text == other.text }
}
