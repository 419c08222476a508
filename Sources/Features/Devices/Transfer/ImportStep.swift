import FoundationEssentials
import Postgres

/// The lines that one transaction of an import applies.
struct ImportStep: Sendable {
    /// The line after which the step begins.
    let after: Int64
    /// The maximum number of lines.
    let limit: Int64
    /// The time of the devices for which the file has no time.
    let start: Date
    /// The setting `channels.tag`: see ``ChannelTag``.
    var channelTag: String?

    fileprivate var parameters: [PostgresValue] {
        [.int64(after), .timestamp(start), .int64(limit), .text(channelTag)]
    }

    /// The lines of a step.
    static let lines: SQL = """
        SELECT *
        FROM device_import
        WHERE line > $1
        ORDER BY line
        LIMIT $3
        """

    /// Returns the tags to store of a line.
    static func tags(_ given: SQL, of userID: SQL) -> SQL { ChannelTag.tags(given, of: userID, "$4") }

    /// The columns of a new device, from those of `device_import`.
    static let device: SQL = """
        user_id, device_id, push_type, push_token, locale, timezone, app_version, \(tags("tags", of: "user_id")),
        COALESCE(created_at, updated_at, $2), COALESCE(updated_at, $2),
        CASE WHEN at_kakao THEN 1 ELSE 0 END, CASE WHEN at_kakao THEN now() ELSE 'infinity' END, expires_at, renew_at
        """
}

/// A statement that applies a step. Its parameters are ``ImportStep/after``, ``ImportStep/start``, ``ImportStep/limit`` and
/// ``ImportStep/channelTag``.
protocol ImportStepStatement: PostgresStatement where Row == ImportStepResult {
    var step: ImportStep { get }
}

extension ImportStepStatement {
    var parameters: [PostgresValue] { step.parameters }
    static func decode(_ row: PostgresRow) throws -> ImportStepResult { try row.decode(ImportStepResult.init) }
}

/// The outcome of a step.
struct ImportStepResult: Sendable {
    /// The last line of the step; `nil` if there was none.
    let last: Int64?
    let created: Int64
    let updated: Int64
    let displaced: Int64
    private let transactionID: Int64
    private let isAlone: Bool

    fileprivate init(_ column: inout ColumnCursor) throws {
        last = try column.next()
        created = try column.next()
        updated = try column.next()
        displaced = try column.next()
        transactionID = try column.next()
        isAlone = try column.next()
    }

    /// See ``FindContestedTokens/soleTransaction``.
    var soleTransaction: Int64? { isAlone ? transactionID : nil }

    /// The columns of `transactionID` and `isAlone`: no transaction that writes was in progress, and none began before this one wrote.
    static let transaction: SQL = """
        pg_current_xact_id()::text::bigint,
        pg_snapshot_xmin(pg_current_snapshot()) = pg_current_xact_id()
        """
}
