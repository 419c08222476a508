import FoundationEssentials
import Postgres

/// Applies the next lines of an import to the stored devices.
///
/// A line counts if it is newer than the stored device and than any other device with its token. A line without a time
/// is older than any device. The same rule decides between two lines of one step; if their times are equal, the first
/// line counts.
///
/// `candidates` are chosen by the devices at the start of the statement. Devices only become newer, so that all other
/// lines are certainly outdated, and their rows need no lock. A candidate of which neither the device nor the token is
/// stored becomes a new device. The rows of the other candidates, which are `known`, are locked in the order of their
/// keys, as by every statement, and their current values decide. If an app registers a new device meanwhile, its key
/// exists, and the statement fails with a unique violation. Its repetition finds the device, which is newer.
///
/// The plan is kept, although PostgreSQL has no statistics of a table while it is filled. Devices are therefore looked
/// up one by one (`LATERAL`, `OFFSET 0`), never by reading all of them, and `NOT IN` always hashes its rows.
///
/// A changed device waits at `infinity` for ``ReleaseImportedDevices``, unless it was pending before. A lease stays
/// with its holder, which will find the device pending. A displaced device gets the time of the line that displaced it,
/// so that a newer line registers it again.
struct ApplyImportedDevices: ImportStepStatement {
    static let sql: SQL = """
        WITH step AS (\(ImportStep.lines)),
        ranked AS (
            SELECT *,
                row_number() OVER (
                    PARTITION BY user_id, device_id, push_type
                    ORDER BY updated_at DESC NULLS LAST, line
                ) = 1 AS is_newest,
                row_number() OVER (PARTITION BY push_token ORDER BY updated_at DESC NULLS LAST, line) = 1 AS holds_token
            FROM step
        ),
        candidates AS (
            SELECT *
            FROM (
                SELECT ranked.*, GREATEST(own.updated_at, holders.updated_at) AS stored_at
                FROM ranked
                LEFT JOIN LATERAL (
                    SELECT updated_at
                    FROM devices
                    WHERE (user_id, device_id, push_type) = (ranked.user_id, ranked.device_id, ranked.push_type)
                    OFFSET 0
                ) AS own ON true
                CROSS JOIN LATERAL (
                    SELECT max(updated_at) AS updated_at
                    FROM devices
                    WHERE push_token = ranked.push_token
                ) AS holders
                WHERE is_newest
                    AND holds_token
            ) AS compared
            WHERE stored_at IS NULL
                OR updated_at > stored_at
        ),
        known AS (
            SELECT *
            FROM candidates
            WHERE stored_at IS NOT NULL
        ),
        concerned AS (
            SELECT user_id, device_id, push_type
            FROM known
            UNION
            SELECT other.user_id, other.device_id, other.push_type
            FROM known
            CROSS JOIN LATERAL (
                SELECT user_id, device_id, push_type
                FROM devices
                WHERE push_token = known.push_token
                OFFSET 0
            ) AS other
        ),
        held AS (
            SELECT device.*
            FROM (
                SELECT user_id, device_id, push_type
                FROM concerned
                ORDER BY user_id, device_id, push_type
                OFFSET 0
            ) AS concerned
            CROSS JOIN LATERAL (
                SELECT user_id, device_id, push_type, push_token, withdrawn, updated_at, last_failure_at,
                    kakao_revision = revision AS is_confirmed,
                    expires_at IS NOT NULL AND renew_at IS NULL AS is_left_to_expire
                FROM devices
                WHERE (user_id, device_id, push_type) = (concerned.user_id, concerned.device_id, concerned.push_type)
                FOR UPDATE
            ) AS device
        ),
        applied AS (
            SELECT *, true AS is_new, false AS is_confirmed, false AS is_changed
            FROM candidates
            WHERE stored_at IS NULL
            UNION ALL
            SELECT given.*,
                own.user_id IS NULL AS is_new,
                own.is_confirmed AND given.at_kakao AS is_confirmed,
                NOT (own.is_confirmed AND given.at_kakao)
                    AND (
                        own.withdrawn
                        OR own.push_token <> given.push_token
                        OR own.is_confirmed AND own.is_left_to_expire
                    ) AS is_changed
            FROM known AS given
            LEFT JOIN held AS own USING (user_id, device_id, push_type)
            WHERE (
                    own.user_id IS NULL
                    OR given.updated_at > GREATEST(
                        own.updated_at,
                        CASE WHEN own.push_token = given.push_token THEN own.last_failure_at END
                    )
                )
                AND NOT EXISTS (
                    SELECT 1
                    FROM held AS other
                    WHERE other.push_token = given.push_token
                        AND (other.user_id, other.device_id, other.push_type)
                            <> (given.user_id, given.device_id, given.push_type)
                        AND (given.updated_at > other.updated_at) IS NOT TRUE
                )
        ),
        displaced AS (
            UPDATE devices AS device
            SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause) = (
                SELECT withdrawal.withdrawn, withdrawal.revision, withdrawal.updated_at, withdrawal.attempts,
                    CASE WHEN device.kakao_revision < device.revision THEN device.next_attempt_at ELSE 'infinity' END,
                    withdrawal.withdrawal_cause
                FROM withdrawal(device, 'token_moved', applied.updated_at) AS withdrawal
            )
            FROM applied
            JOIN held USING (push_token)
            WHERE (device.user_id, device.device_id, device.push_type) = (held.user_id, held.device_id, held.push_type)
                AND NOT held.withdrawn
                AND (held.user_id, held.device_id, held.push_type) NOT IN (
                    SELECT user_id, device_id, push_type
                    FROM applied
                )
            RETURNING 1
        ),
        updated AS (
            UPDATE devices AS device
            SET push_token = applied.push_token,
                locale = applied.locale,
                timezone = applied.timezone,
                app_version = applied.app_version,
                tags = \(ImportStep.tags("applied.tags", of: "applied.user_id")),
                created_at = CASE
                    WHEN device.withdrawn THEN COALESCE(applied.created_at, applied.updated_at)
                    ELSE device.created_at
                END,
                updated_at = applied.updated_at,
                withdrawn = false,
                revision = device.revision + CASE WHEN applied.is_changed THEN 1 ELSE 0 END,
                attempts = CASE WHEN applied.is_changed THEN 0 ELSE device.attempts END,
                next_attempt_at = CASE
                    WHEN applied.is_changed AND device.kakao_revision = device.revision THEN 'infinity'
                    ELSE device.next_attempt_at
                END,
                expires_at = CASE WHEN applied.is_confirmed THEN applied.expires_at ELSE device.expires_at END,
                renew_at = CASE WHEN applied.is_confirmed THEN applied.renew_at ELSE device.renew_at END,
                failures = 0,
                last_failure_at = NULL
            FROM applied
            WHERE (device.user_id, device.device_id, device.push_type)
                    = (applied.user_id, applied.device_id, applied.push_type)
                AND NOT applied.is_new
            RETURNING 1
        ),
        created AS (
            INSERT INTO devices (
                user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, created_at, updated_at,
                kakao_revision, next_attempt_at, expires_at, renew_at
            )
            SELECT \(ImportStep.device)
            FROM applied
            WHERE is_new
            ORDER BY user_id, device_id, push_type
            RETURNING 1
        )
        SELECT
            (SELECT max(line) FROM step),
            (SELECT count(*) FROM created),
            (SELECT count(*) FROM updated),
            (SELECT count(*) FROM displaced),
            \(ImportStepResult.transaction)
        """

    let step: ImportStep
}

/// Finds tokens of imported lines that several devices have.
///
/// A registration and a step whose transactions overlap do not see each other, and one token may then have two devices.
/// This statement begins after the step is committed. Either it sees the registration, or the later confirmation of the
/// registration sees both devices. If all devices of the step were new, and no other transaction has written between the beginning of
/// the step and of this statement, as the numbers of transactions show, there is nothing to look for.
struct FindContestedTokens: PostgresStatement {
    static let sql: SQL = """
        SELECT device.push_token
        FROM (
            SELECT push_token
            FROM device_import
            WHERE line > $1
                AND line <= $2
                AND (
                    $4::bigint IS NULL
                    OR pg_snapshot_xmax(pg_current_snapshot())::text::bigint > $4 + 1
                )
            LIMIT $3
        ) AS step
        CROSS JOIN LATERAL (
            SELECT push_token
            FROM devices
            WHERE push_token = step.push_token
                AND NOT withdrawn
            OFFSET 1
            LIMIT 1
        ) AS device
        """

    let after: Int64
    let last: Int64
    let limit: Int64
    /// The number of the step's transaction, if all its devices were new and no transaction that writes was in progress when it began.
    let soleTransaction: Int64?

    var parameters: [PostgresValue] { [.int64(after), .int64(last), .int64(limit), .int64(soleTransaction)] }
    static func decode(_ row: PostgresRow) throws -> String { try row.decode(String.self) }
}

/// Withdraws all devices of each token except the one registered last.
struct WithdrawContestedDevices: PostgresStatement {
    static let sql: SQL = """
        WITH held AS (
            SELECT device.user_id, device.device_id, device.push_type, device.push_token, device.updated_at
            FROM devices AS device
            WHERE device.push_token = ANY ($1::text[])
                AND NOT device.withdrawn
            ORDER BY device.user_id, device.device_id, device.push_type
            FOR UPDATE OF device
        ),
        ranked AS (
            SELECT *,
                row_number() OVER (
                    PARTITION BY push_token
                    ORDER BY updated_at DESC, user_id DESC, device_id DESC, push_type DESC
                ) > 1 AS loses_token
            FROM held
        )
        UPDATE devices AS device
        SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
            = (SELECT * FROM withdrawal(device, 'token_moved', device.updated_at))
        FROM ranked
        WHERE (device.user_id, device.device_id, device.push_type) = (ranked.user_id, ranked.device_id, ranked.push_type)
            AND ranked.loses_token
        """

    let tokens: [String]

    var parameters: [PostgresValue] { [.texts(tokens)] }
}
