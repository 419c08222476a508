import FoundationEssentials
import Postgres

/// Stores the next lines of an import as new devices, if no device has their keys or tokens, and no two of them the same key or
/// token. Otherwise it stores none, and ``ApplyImportedDevices`` decides line by line.
///
/// Nearly all steps of an import into a new server are of this kind. Without window functions, row locks and comparisons of times,
/// they cost less.
///
/// Fails with a unique violation if an app registers one of the devices meanwhile.
struct CreateImportedDevices: ImportStepStatement {
    static let sql: SQL = """
        WITH step AS (\(ImportStep.lines)),
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
            \(ImportStepResult.transaction)
        """

    let step: ImportStep
}
