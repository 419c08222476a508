import Endpoints
import EventLoop
import FoundationEssentials
import KakaoAPI
import Postgres
import Runtime
import Schemas

/// A store that imports devices from another system into PostgreSQL.
///
/// The devices are staged in a temporary table first, so that an invalid or incomplete file changes nothing. They are
/// then applied in small steps, each a transaction of its own, so that a registration of one of the devices does not
/// wait for long.
struct DeviceImportStore: Sendable {
    /// The outcome of an import.
    struct Result: Equatable, Sendable {
        /// Devices in the file.
        var lines: Int64 = 0
        /// Devices that were unknown.
        var created: Int64 = 0
        /// Known devices that now have the values of the file.
        var updated: Int64 = 0
        /// Devices outside the file that lost their token to a device of the file.
        var displaced: Int64 = 0

        /// Devices of the file that changed nothing, since the stored ones were at least as recent.
        var unchanged: Int64 { lines - created - updated }
    }

    /// The timeout of each statement, and of a pause in which PostgreSQL accepts no data. It allows a slow disk to
    /// store a gigabyte.
    private static let statementTimeout = Duration.seconds(120)
    /// The number of lines of one step. A step takes some 30 ms if its devices are new, and 50 ms if they change. A
    /// registration of one of them may have to wait for so long.
    private static let step: Int64 = 2000
    /// The maximum number of attempts at a step that conflicts with other transactions.
    private static let maximumAttempts = 50

    private let pool: PostgresPool
    private let renewal: RenewalTime
    /// The setting `channels.tag`: see ``ChannelTag``.
    private let channelTag: String?

    init(pool: PostgresPool, renewal: RenewalTime, channelTag: String?) {
        self.pool = pool
        self.renewal = renewal
        self.channelTag = channelTag
    }

    /// Imports all devices, or none if `body` throws.
    ///
    /// Holds one of the loop's connections for transactions until it returns.
    ///
    /// - Parameter body: Writes the devices, as ``append(_:line:now:to:)`` encodes them, in the order of their lines.
    /// - Throws: Errors of `body`, with nothing applied. ``PostgresError`` and `CancellationError`, perhaps with a part
    ///   of the lines applied; repeating the import applies the rest.
    func importDevices(writing body: (PostgresCopyWriter) async throws -> Void) async throws -> Result {
        try await pool.withConnection(statementTimeout: Self.statementTimeout) { session in
            try await session.execute(script: Self.stagingTable)
            guard let start = try await session.query(ReadTransactionTime()).first else {
                throw PostgresError(.decoding, detail: "no transaction time")
            }
            var result = Result()
            result.lines = Int64(try await session.copy("COPY device_import FROM STDIN (FORMAT binary)", writing: body))
            // Faster than an index that COPY maintains.
            try await session.execute(script: "CREATE INDEX ON device_import (line)")
            var position: Int64 = 0
            var steps = 0
            while let last = try await applyStep(after: position, start: start, on: session, &result) {
                position = last
                steps += 1
                // A plan suits tables of about the size at which it was made. Steps 1, 2, 4, 8 and so on are followed
                // by new plans, so that no table grows to more than about twice that size.
                if steps.nonzeroBitCount == 1 { try await session.execute(script: "DISCARD PLANS") }
            }
            try await session.execute(script: Self.flush)
            return result
        }
    }

    /// A script that configures the session and creates the staging table.
    ///
    /// PostgreSQL looks for a deadlock after one second of waiting and cancels one of the statements. The lock timeout
    /// is shorter, so that it is never the registration of an app that is cancelled.
    ///
    /// A step does not wait for the disk, only ``flush`` does. Plans are generic: planning a step takes a tenth of its
    /// time.
    static let stagingTable: SQL = """
        SET lock_timeout = 400;
        SET plan_cache_mode = force_generic_plan;
        SET synchronous_commit = off;
        CREATE TEMPORARY TABLE device_import (
            line        bigint      NOT NULL,
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
            -- Whether Kakao has the token, until `expires_at` or for ever.
            at_kakao    boolean     NOT NULL,
            expires_at  timestamptz,
            renew_at    timestamptz
        )
        """

    /// A script that waits until all steps are on disk: a commit that changes the catalog waits for all before it.
    private static let flush: SQL = """
        RESET synchronous_commit;
        DROP TABLE device_import
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
        // Multiples of the golden ratio are spread evenly, and cost less than random numbers.
        let jitter = (Double(line) * 0.618_033_988_749_895).truncatingRemainder(dividingBy: 1)
        try rows.append([
            .int64(line),
            .int64(registration.key.userID),
            .text(registration.key.deviceID),
            .pushType(registration.key.pushType),
            .text(registration.pushToken),
            .text(registration.locale),
            .text(registration.timezone),
            .text(registration.appVersion),
            .texts(registration.tags),
            .timestamp(device.createdAt),
            .timestamp(device.updatedAt),
            .bool(device.expiry != nil),
            .timestamp(expiresAt),
            // An expired token is renewed soon if the device is active.
            .timestamp(expiresAt.map { renewal.date(after: now, expiresAt: $0, jitter: jitter) ?? now }),
        ])
    }

    // MARK: Steps

    /// Applies the lines of the next step. Returns the last of them; `nil` if there are no more.
    private func applyStep(
        after position: Int64,
        start: Date,
        on session: PostgresSession,
        _ result: inout Result
    ) async throws -> Int64? {
        let lines = ImportStep(after: position, limit: Self.step, start: start, channelTag: channelTag)
        guard let step = try await apply(lines, on: session), let last = step.last else {
            return nil
        }
        result.created += step.created
        result.updated += step.updated
        result.displaced += step.displaced
        // A device that was known may share its token since an earlier race.
        let areNew = step.created == last - position
        let contested = try await session.query(
            FindContestedTokens(
                after: position,
                last: last,
                limit: Self.step,
                soleTransaction: areNew ? step.soleTransaction : nil
            )
        )
        if !contested.isEmpty {
            let withdraw = WithdrawContestedDevices(tokens: contested)
            result.displaced += Int64(try await retryingConflicts { try await session.query(withdraw) as Int })
        }
        return last
    }

    /// Stores the lines of a step as new devices if they are, and applies them to the stored ones otherwise.
    private func apply(_ step: ImportStep, on session: PostgresSession) async throws -> ImportStepResult? {
        do {
            let result = try await session.query(CreateImportedDevices(step: step)).first
            // There are no more lines, or they are stored.
            if result?.last == nil || result?.created != 0 { return result }
        } catch let error as PostgresError where Self.isConflict(error) {
            // One of them is being registered.
        }
        return try await retryingConflicts { try await session.query(ApplyImportedDevices(step: step)).first }
    }

    private static func isConflict(_ error: PostgresError) -> Bool {
        ["55P03", "40P01", "23505"].contains(error.sqlState)
    }

    /// Retries a statement while other transactions lock its rows, or create the devices that it creates.
    ///
    /// - Throws: Errors of `body`; ``PostgresError/Code/timedOut`` after ``maximumAttempts``.
    private func retryingConflicts<Output>(_ body: () async throws -> Output) async throws -> Output {
        for _ in 1...Self.maximumAttempts {
            do {
                return try await body()
            } catch let error as PostgresError where Self.isConflict(error) {
                try await pool.loop.sleep(for: .milliseconds(20))
            }
        }
        throw PostgresError(.timedOut, detail: "an import keeps conflicting with other transactions")
    }
}

// MARK: Registration at Kakao

extension DeviceImportStore {
    /// The number of imported registrations that each server sends to Kakao in a second: a million takes three hours.
    private static let releasedPerSecond = 100.0
    /// The time between two releases.
    static let releaseInterval = Duration.seconds(5)

    /// Schedules the calls to Kakao about the next imported devices, one after the other, until the next release.
    ///
    /// Other devices that are due until then reduce the number of imported ones, so that requests of apps come first,
    /// even after an outage.
    ///
    /// - Returns: The number of scheduled devices, and whether there may be more.
    func release() async throws -> (count: Int, hasMore: Bool) {
        let seconds = Self.releaseInterval.inSeconds
        let release = ReleaseImportedDevices(
            limit: Int32(Self.releasedPerSecond * seconds),
            perSecond: Self.releasedPerSecond,
            seconds: seconds
        )
        return try await pool.write(release).first ?? (0, false)
    }
}

extension DeviceImportStore.Result {
    static let shape = Shape<DeviceImportStore.Result>(
        "DeviceImport",
        [
            .member("lines", .count, "The devices in the file.", \.lines),
            .member("created", .count, "The devices that were unknown.", \.created),
            .member("updated", .count, "The known devices that now have the values of the file.", \.updated),
            .member("unchanged", .count, "The devices that were stored with values at least as recent.", \.unchanged),
            .member(
                "displaced",
                .count,
                "The devices outside the file that lost their token to one of it.",
                \.displaced
            ),
        ]
    )
}

// MARK: Statements

/// Schedules calls to Kakao about imported devices.
///
/// The registration of a token has to wait for the withdrawals of its other devices, which are scheduled with it.
struct ReleaseImportedDevices: PostgresStatement {
    static let sql: SQL = """
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

    let limit: Int32
    let perSecond: Double
    /// The time for which calls are scheduled.
    let seconds: Double

    var parameters: [PostgresValue] { [.int32(limit), .float64(perSecond), .float64(seconds)] }

    static func decode(_ row: PostgresRow) throws -> (count: Int, hasMore: Bool) {
        try row.decode { try (Int($0.next(Int64.self)), $0.next()) }
    }
}
