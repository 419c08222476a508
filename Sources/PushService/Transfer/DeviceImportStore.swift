internal import EventLoop
internal import FoundationEssentials
internal import KakaoAPI
internal import Postgres

/// Devices that come from another system, on their way into PostgreSQL.
///
/// They are staged in a temporary table first, which is gone with its connection, so that a file with a bad line, or half of one, changes
/// nothing. Then they are applied in small steps, each a transaction of its own: no app waits for long whose device is in the file.
struct DeviceImportStore: Sendable {
    /// What became of the lines.
    struct Result: Equatable, Sendable {
        /// Devices that the file had.
        var lines: Int64 = 0
        /// Of which nothing was known here.
        var created: Int64 = 0
        /// Which are now as the file has them.
        var updated: Int64 = 0
        /// Devices that lost their token to one of these; none of the lines.
        var displaced: Int64 = 0

        /// Lines that changed nothing, since what is here is as recent.
        var unchanged: Int64 { lines - created - updated }
    }

    /// How long each statement may take, and how long PostgreSQL may take none of the data: a slow disk has time for a gigabyte.
    private static let statementTimeout = Duration.seconds(120)
    /// Lines that are applied in one transaction: some 50 ms, during which an app may have to wait that registers one of the same devices.
    private static let step = 1000
    /// How long a step waits for a row that somebody else has: less than the second after which PostgreSQL looks for a deadlock and ends
    /// one of those in it, which is so never the registration of an app.
    private static let lockMilliseconds = 400
    /// How often a step is tried that meets others.
    private static let maximumAttempts = 50

    private let pool: PostgresPool
    private let renewal: RenewalTime

    init(pool: PostgresPool, renewal: RenewalTime) {
        self.pool = pool
        self.renewal = renewal
    }

    /// Imports devices, all of them or, when `body` throws, none.
    ///
    /// Takes one of the loop's connections for transactions for as long as that takes.
    ///
    /// - Parameter body: Writes the devices as ``append(_:line:to:)`` has them, in the order of their lines.
    /// - Throws: What `body` throws, with nothing applied. ``PostgresError`` and `CancellationError`, perhaps with a part of the lines
    ///   applied: the same import again does what is left.
    func importDevices(writing body: (PostgresCopyWriter) async throws -> Void) async throws -> Result {
        try await pool.withConnection(statementTimeout: Self.statementTimeout) { session in
            try await session.execute(script: Self.stagingTable)
            guard let start = try await session.query("SELECT now()").first?.decode(Date.self) else {
                throw PostgresError(.decoding, detail: "no time")
            }
            var result = Result()
            result.lines = Int64(try await session.copy("COPY device_import FROM STDIN (FORMAT binary)", writing: body))
            // A temporary table has no statistics otherwise.
            try await session.execute(script: "ANALYZE device_import")
            var position: Int64 = 0
            while let last = try await applyStep(after: position, start: start, on: session, &result) {
                position = last
            }
            return result
        }
    }

    private static let stagingTable = """
        SET lock_timeout = \(lockMilliseconds);
        -- The tables grow while the same statement is run.
        SET plan_cache_mode = force_custom_plan;
        CREATE TEMPORARY TABLE device_import (
            line        bigint      PRIMARY KEY,
            user_id     bigint      NOT NULL,
            device_id   text        NOT NULL,
            push_type   text        NOT NULL,
            push_token  text        NOT NULL,
            locale      text,
            timezone    text,
            app_version text,
            tags        text[]      NOT NULL,
            created_at  timestamptz,
            updated_at  timestamptz,
            -- Kakao has the token, until `expires_at` or for ever.
            at_kakao    boolean     NOT NULL,
            expires_at  timestamptz,
            renew_at    timestamptz
        )
        """

    /// Appends a row of the staging table.
    ///
    /// - Throws: ``PostgresError/Code/invalidParameter``.
    func append(
        _ device: TransferredDevice,
        line: Int64,
        now: Date,
        to rows: inout PostgresCopyRows
    ) throws(PostgresError) {
        let registration = device.registration
        var expiresAt: Date?
        if case .date(let date) = device.expiry { expiresAt = date }
        try rows.append([
            .int64(line),
            .int64(registration.key.userID),
            .text(registration.key.deviceID),
            .text(registration.key.pushType.storedName),
            .text(registration.pushToken),
            .text(registration.locale),
            .text(registration.timezone),
            .text(registration.appVersion),
            .texts(registration.tags),
            .timestamp(device.createdAt),
            .timestamp(device.updatedAt),
            .bool(device.expiry != nil),
            .timestamp(expiresAt),
            // One that has expired is registered again soon, if the device is active.
            .timestamp(expiresAt.map { renewal.date(after: now, expiresAt: $0) ?? now }),
        ])
    }

    // MARK: Steps

    /// Applies the lines after `position`, as many as go into one step.
    ///
    /// - Returns: The last of them; `nil` when there was none.
    private func applyStep(
        after position: Int64,
        start: Date,
        on session: PostgresSession,
        _ result: inout Result
    ) async throws -> Int64? {
        let rows = try await givingWay {
            try await session.query(Self.applyStatement, [.int64(position), .timestamp(start)])
        }
        guard let row = rows.first else { throw PostgresError(.decoding, detail: "a step ended without an answer") }
        let (last, created, updated, displaced) = try row.decode(Int64?.self, Int64.self, Int64.self, Int64.self)
        guard let last else { return nil }
        result.created += created
        result.updated += updated
        result.displaced += displaced
        let contested = try await session.query(Self.contestedTokens, [.int64(position), .int64(last)])
            .map { try $0.decode(String.self) }
        if !contested.isEmpty {
            let settled = try await givingWay { try await session.query(Self.contestedStatement, [.texts(contested)]) }
            result.displaced += Int64(settled.affectedRows)
        }
        return last
    }

    /// Runs a statement again that met others.
    ///
    /// - Throws: What `body` throws; ``PostgresError/Code/timedOut`` when there is always somebody.
    private func givingWay(_ body: () async throws -> PostgresRows) async throws -> PostgresRows {
        for _ in 1...Self.maximumAttempts {
            do {
                return try await body()
            } catch let error as PostgresError where ["55P03", "40P01"].contains(error.sqlState) {
                try await pool.loop.sleep(for: .milliseconds(20))
            }
        }
        throw PostgresError(.timedOut, detail: "rows of an import are held by others")
    }

    /// A line counts if it is newer than what is known here of its device and of its token; one without a time is older than anything.
    /// Of two lines in one step the same is true, with the first one of two of the same time.
    ///
    /// `candidates` are judged by what stood there when the statement began. A row only ever becomes newer, so that the others are
    /// outdated for certain and their rows need no lock. The rows that the candidates concern are then locked, in the order of their key as
    /// by every statement here, and what stands in them now decides. A device that an app registers meanwhile for the first time is
    /// not seen, and stays as it is: it is newer.
    ///
    /// Devices are looked up one by one (`LATERAL`, `OFFSET 0`): while a table is filled PostgreSQL knows nothing of what is in it, and would
    /// read all of it in each step.
    ///
    /// What Kakao has yet to hear of waits at `infinity` for its turn (``releaseStatement``), unless it was waiting for Kakao already. A
    /// lease is left to its holder, who finds that there is more to tell. A displaced device is as old as the line that displaced it, so
    /// that a later line that is newer brings it back with a token of its own.
    private static let applyStatement = """
        WITH step AS (
            SELECT *
            FROM device_import
            WHERE line > $1
            ORDER BY line
            LIMIT \(step)
        ),
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
            FROM ranked
            WHERE is_newest
                AND holds_token
                AND NOT EXISTS (
                    SELECT 1
                    FROM devices AS own
                    WHERE (own.user_id, own.device_id, own.push_type) = (ranked.user_id, ranked.device_id, ranked.push_type)
                        AND (ranked.updated_at > own.updated_at) IS NOT TRUE
                )
                AND NOT EXISTS (
                    SELECT 1
                    FROM devices AS other
                    WHERE other.push_token = ranked.push_token
                        AND (ranked.updated_at > other.updated_at) IS NOT TRUE
                )
        ),
        concerned AS (
            SELECT user_id, device_id, push_type
            FROM candidates
            UNION
            SELECT other.user_id, other.device_id, other.push_type
            FROM candidates
            CROSS JOIN LATERAL (
                SELECT user_id, device_id, push_type
                FROM devices
                WHERE push_token = candidates.push_token
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
                    kakao_revision = revision AS is_settled,
                    expires_at IS NOT NULL AND renew_at IS NULL AS is_left_to_expire
                FROM devices
                WHERE (user_id, device_id, push_type) = (concerned.user_id, concerned.device_id, concerned.push_type)
                FOR UPDATE
            ) AS device
        ),
        applied AS (
            SELECT given.*,
                own.user_id IS NULL AS is_new,
                own.is_settled AND given.at_kakao AS is_settled,
                NOT (own.is_settled AND given.at_kakao)
                    AND (
                        own.withdrawn
                        OR own.push_token <> given.push_token
                        OR own.is_settled AND own.is_left_to_expire
                    ) AS is_to_be_told
            FROM candidates AS given
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
            SET withdrawn = true,
                revision = device.revision + 1,
                updated_at = applied.updated_at,
                attempts = 0,
                next_attempt_at = CASE
                    WHEN device.kakao_revision < device.revision THEN device.next_attempt_at
                    ELSE 'infinity'
                END
            FROM applied
            JOIN held USING (push_token)
            WHERE (device.user_id, device.device_id, device.push_type) = (held.user_id, held.device_id, held.push_type)
                AND NOT held.withdrawn
                AND NOT EXISTS (
                    SELECT 1
                    FROM applied AS own
                    WHERE (own.user_id, own.device_id, own.push_type) = (held.user_id, held.device_id, held.push_type)
                )
            RETURNING 1
        ),
        updated AS (
            UPDATE devices AS device
            SET push_token = applied.push_token,
                locale = applied.locale,
                timezone = applied.timezone,
                app_version = applied.app_version,
                tags = applied.tags,
                created_at = CASE
                    WHEN device.withdrawn THEN COALESCE(applied.created_at, applied.updated_at)
                    ELSE device.created_at
                END,
                updated_at = applied.updated_at,
                withdrawn = false,
                revision = device.revision + CASE WHEN applied.is_to_be_told THEN 1 ELSE 0 END,
                attempts = CASE WHEN applied.is_to_be_told THEN 0 ELSE device.attempts END,
                next_attempt_at = CASE
                    WHEN applied.is_to_be_told AND device.kakao_revision = device.revision THEN 'infinity'
                    ELSE device.next_attempt_at
                END,
                expires_at = CASE WHEN applied.is_settled THEN applied.expires_at ELSE device.expires_at END,
                renew_at = CASE WHEN applied.is_settled THEN applied.renew_at ELSE device.renew_at END,
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
            SELECT user_id, device_id, push_type, push_token, locale, timezone, app_version, tags,
                COALESCE(created_at, updated_at, $2), COALESCE(updated_at, $2),
                CASE WHEN at_kakao THEN 1 ELSE 0 END, CASE WHEN at_kakao THEN now() ELSE 'infinity' END, expires_at, renew_at
            FROM applied
            WHERE is_new
            ORDER BY user_id, device_id, push_type
            ON CONFLICT (user_id, device_id, push_type) DO NOTHING
            RETURNING 1
        )
        SELECT
            (SELECT max(line) FROM step),
            (SELECT count(*) FROM created),
            (SELECT count(*) FROM updated),
            (SELECT count(*) FROM displaced)
        """

    /// A registration and a step whose transactions overlap do not see each other, and one token may then have two devices. This
    /// statement begins when the step has been committed: it sees the registration, or the note of what Kakao answered to the registration
    /// comes later and sees both.
    private static let contestedTokens = """
        SELECT device.push_token
        FROM (
            SELECT DISTINCT push_token
            FROM device_import
            WHERE line > $1
                AND line <= $2
            LIMIT \(step)
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

    /// The device that was registered last keeps the token.
    private static let contestedStatement = """
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
        SET withdrawn = true,
            revision = device.revision + 1,
            attempts = 0,
            next_attempt_at = now()
        FROM ranked
        WHERE (device.user_id, device.device_id, device.push_type) = (ranked.user_id, ranked.device_id, ranked.push_type)
            AND ranked.loses_token
        """
}

// MARK: Telling Kakao

/// What an import has left for Kakao to hear.
extension DeviceImportStore {
    /// Registrations of which Kakao is told in a second for each server: a million in three hours.
    private static let releasedPerSecond = 100.0
    /// How often they are released.
    static let releaseInterval = Duration.seconds(5)

    /// Gives the next devices of imports their turn to be told to Kakao, one after the other, until it is time to look again; as many as
    /// there is room for beside what Kakao is to be told by then anyway. So what apps ask for comes first, also after an outage.
    ///
    /// - Returns: How many, and whether there may be more.
    func release() async throws -> (count: Int, hasMore: Bool) {
        let seconds = Self.releaseInterval.inSeconds
        let rows = try await retryingDeadlocks {
            try await pool.write(
                Self.releaseStatement,
                [.int32(Int32(Self.releasedPerSecond * seconds)), .float64(Self.releasedPerSecond), .float64(seconds)]
            )
        }
        guard let row = rows.first else { return (0, false) }
        let (count, hasMore) = try row.decode(Int64.self, Bool.self)
        return (Int(count), hasMore)
    }

    /// Together with a registration come the withdrawals of its token, for which it has to wait.
    private static let releaseStatement = """
        WITH due AS (
            SELECT count(*) AS devices
            FROM (
                SELECT
                FROM devices
                WHERE kakao_revision < revision
                    AND next_attempt_at <= now() + make_interval(secs => $3)
                LIMIT $1
            ) AS due
        ),
        chosen AS (
            SELECT user_id, device_id, push_type, push_token
            FROM devices
            WHERE kakao_revision < revision
                AND next_attempt_at = 'infinity'
            LIMIT (SELECT $1 - devices FROM due)
            FOR UPDATE SKIP LOCKED
        ),
        placed AS (
            SELECT *, row_number() OVER () AS place
            FROM chosen
        ),
        turns AS (
            SELECT user_id, device_id, push_type, place
            FROM placed
            UNION ALL
            SELECT other.user_id, other.device_id, other.push_type, placed.place
            FROM placed
            JOIN devices AS other USING (push_token)
            WHERE other.withdrawn
        ),
        released AS (
            UPDATE devices AS device
            SET next_attempt_at = now() + make_interval(secs => turns.place / $2)
            FROM turns
            WHERE (device.user_id, device.device_id, device.push_type) = (turns.user_id, turns.device_id, turns.push_type)
                AND device.kakao_revision < device.revision
                AND device.next_attempt_at = 'infinity'
            RETURNING 1
        )
        SELECT
            (SELECT count(*) FROM released),
            EXISTS (SELECT FROM devices WHERE kakao_revision < revision AND next_attempt_at = 'infinity')
        """
}
