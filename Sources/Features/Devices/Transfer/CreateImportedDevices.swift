import FoundationEssentials
import Postgres

/// Stores the next lines of an import as new devices, if no device has their keys or tokens, and no two of them the same key or
/// token. Otherwise it stores none, and ``ApplyImportedDevices`` decides line by line.
///
/// Nearly all steps of an import into a new server are of this kind. They cost less without windows, locks and comparisons
/// of times.
///
/// Fails with a unique violation if an app registers one of the devices meanwhile.
struct CreateImportedDevices: PostgresStatement {
    static let sql: SQL = """
        WITH step AS (
            SELECT *
            FROM device_import
            WHERE line > $1
            ORDER BY line
            LIMIT $3
        ),
        created AS (
            INSERT INTO devices (
                user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, created_at, updated_at,
                kakao_revision, next_attempt_at, expires_at, renew_at
            )
            SELECT \(ImportStep.device)
            FROM step
            WHERE (
                SELECT NOT EXISTS (
                        SELECT 1
                        FROM step
                        CROSS JOIN LATERAL (
                            SELECT 1
                            FROM devices
                            WHERE (user_id, device_id, push_type) = (step.user_id, step.device_id, step.push_type)
                            OFFSET 0
                        ) AS own
                    )
                    AND NOT EXISTS (
                        SELECT 1
                        FROM step
                        CROSS JOIN LATERAL (
                            SELECT 1
                            FROM devices
                            WHERE push_token = step.push_token
                            OFFSET 0
                        ) AS holder
                    )
                    AND NOT EXISTS (SELECT 1 FROM step GROUP BY user_id, device_id, push_type HAVING count(*) > 1)
                    AND NOT EXISTS (SELECT 1 FROM step GROUP BY push_token HAVING count(*) > 1)
            )
            ORDER BY user_id, device_id, push_type
            RETURNING 1
        )
        SELECT
            (SELECT max(line) FROM step),
            (SELECT count(*) FROM created),
            0::bigint,
            0::bigint,
            \(ImportStep.transaction)
        """

    /// The line after which the step begins.
    let after: Int64
    let limit: Int64
    /// The time of the devices for which the file has no time.
    let start: Date

    var parameters: [PostgresValue] { [.int64(after), .timestamp(start), .int64(limit)] }

    static func decode(_ row: PostgresRow) throws -> ImportStep { try row.decode(ImportStep.init) }
}

/// The outcome of a step of an import.
struct ImportStep: Sendable {
    /// The last line of the step; `nil` if there was none.
    let last: Int64?
    let created: Int64
    let updated: Int64
    let displaced: Int64
    private let transactionID: Int64
    private let isAlone: Bool

    init(_ column: inout ColumnCursor) throws {
        last = try column.next()
        created = try column.next()
        updated = try column.next()
        displaced = try column.next()
        transactionID = try column.next()
        isAlone = try column.next()
    }

    /// The columns of `devices` that an import inserts, from those of `device_import`. `$2` is ``CreateImportedDevices/start``.
    static let device: SQL = """
        user_id, device_id, push_type, push_token, locale, timezone, app_version, tags,
        COALESCE(created_at, updated_at, $2), COALESCE(updated_at, $2),
        CASE WHEN at_kakao THEN 1 ELSE 0 END, CASE WHEN at_kakao THEN now() ELSE 'infinity' END, expires_at, renew_at
        """

    /// See ``FindContestedTokens/soleTransaction``.
    var soleTransaction: Int64? { isAlone ? transactionID : nil }

    /// The columns of `transactionID` and `isAlone`: no transaction that writes was in progress, and none began before this one wrote.
    static let transaction: SQL = """
        pg_current_xact_id()::text::bigint,
        pg_snapshot_xmin(pg_current_snapshot()) = pg_current_xact_id()
        """
}
