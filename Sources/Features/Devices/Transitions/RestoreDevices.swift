import Endpoints
import EventLoop
import FoundationEssentials
import KakaoAPI
import Postgres
import Runtime

extension DeviceStore {
    /// The number of changes that are compared in one statement.
    private static let comparedAtOnce = 1000

    /// Compares the known registrations with the database, which may have lost them, and stores again what is missing. Kakao is called
    /// about them in the background.
    ///
    /// - Parameters:
    ///   - hasKakaoUserIDs: Whether a user who has left the app is an owner of devices here.
    ///   - report: Records the number of registrations that are missing.
    func restoreRegistrations(
        _ known: [KnownDevices.Known],
        hasKakaoUserIDs: Bool,
        _ report: LostCommits.Report
    ) async throws {
        let lost = try await lost(known.filter { $0.registration != nil })
        try await report(lost.count, [])
        for case let (change, registration?) in lost.map({ ($0.change, $0.registration) }) {
            try await pool.write(
                RestoreRegistration(
                    registration: registration,
                    registeredAt: change.changedAt,
                    hasKakaoUserIDs: hasKakaoUserIDs,
                    channelTag: channelTag
                )
            )
        }
    }

    /// Compares the known withdrawals and departures of users with the database, which may have lost them, and withdraws again. Kakao is
    /// called about them in the background.
    ///
    /// - Parameters:
    ///   - departures: When users left the app.
    ///   - report: Records the number of withdrawals and departures that are missing.
    func restoreWithdrawals(
        _ known: [KnownDevices.Known],
        departures: [Int64: Date],
        _ report: LostCommits.Report
    ) async throws {
        let lost = try await lost(known.filter { $0.registration == nil })
        let left = departures.isEmpty ? [] : try await pool.read(FindLostDepartures(departures: departures))
        try await report(lost.count + left.count, [])
        for userID in left {
            guard let leftAt = departures[userID] else { continue }
            try await pool.write(RestoreDeparture(userID: userID, leftAt: leftAt))
        }
        for device in lost { try await pool.write(RestoreWithdrawal(change: device.change)) }
    }

    private func lost(_ known: [KnownDevices.Known]) async throws -> [KnownDevices.Known] {
        var lost: [KnownDevices.Known] = []
        for start in stride(from: 0, to: known.count, by: Self.comparedAtOnce) {
            let some = known[start..<min(start + Self.comparedAtOnce, known.count)]
            let places = try await pool.read(FindLostDevices(changes: some.map(\.change)))
            lost += places.map { some[some.startIndex + Int($0) - 1] }
        }
        return lost
    }
}

/// Finds the changes of devices that are not stored, nor a later one. Returns their places in the list, from 1.
struct FindLostDevices: PostgresStatement {
    static let sql: SQL = """
        SELECT place
        FROM unnest($1::bigint[], $2::text[], $3::text[], $4::timestamptz[]) WITH ORDINALITY AS given (
            user_id, device_id, push_type, changed_at, place
        )
        WHERE NOT device_change_is_stored(user_id, device_id, push_type, changed_at)
        ORDER BY place
        """

    let changes: [DeviceChange]

    var parameters: [PostgresValue] {
        [
            .int64s(changes.map(\.key.userID)), .texts(changes.map(\.key.deviceID)),
            .pushTypes(changes.map(\.key.pushType)), .timestamps(changes.map(\.changedAt)),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}

/// Stores a registration again that PostgreSQL has lost, with its time, so that what happened later counts.
///
/// Another device that was registered with the token since keeps it: then this one is stored as withdrawn, since Kakao may still have
/// the token for it. One that was registered before loses the token. A lease stays with its holder, which will find the
/// device pending.
struct RestoreRegistration: PostgresStatement {
    static let sql: SQL = """
        WITH held AS MATERIALIZED (
            SELECT user_id, device_id, push_type, push_token, withdrawn, updated_at,
                (user_id, device_id, push_type) = ($1, $2, $3) AS is_own
            FROM devices
            WHERE (user_id, device_id, push_type) = ($1, $2, $3)
                OR push_token = $4
            ORDER BY user_id, device_id, push_type
            FOR UPDATE
        ),
        missing AS MATERIALIZED (
            SELECT COALESCE(bool_or(NOT is_own AND NOT withdrawn AND updated_at > $9), false) AS has_moved
            FROM held
            HAVING NOT COALESCE(bool_or(is_own AND updated_at >= $9), false)
                AND NOT device_change_is_stored($1, $2, $3, $9)
                AND NOT ($12 AND user_has_left($1, COALESCE(now() - make_interval(secs => $10), $9)))
        ),
        displaced AS (
            UPDATE devices AS device
            SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
                    = (SELECT * FROM withdrawal(device, 'token_moved', $9))
            FROM held
            CROSS JOIN missing
            WHERE (device.user_id, device.device_id, device.push_type) = (held.user_id, held.device_id, held.push_type)
                AND NOT held.is_own
                AND NOT held.withdrawn
                AND NOT missing.has_moved
        )
        INSERT INTO devices AS device (
            user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, created_at, updated_at, withdrawn,
            authorized_at, changed_by
        )
        SELECT $1, $2, $3, $4, $5, $6, $7, \(ChannelTag.tags("$8", of: "$1", "$13")), $9, $9, has_moved, now() - make_interval(secs => $10), $11
        FROM missing
        ON CONFLICT (user_id, device_id, push_type) DO UPDATE
        SET push_token = excluded.push_token,
            locale = excluded.locale,
            timezone = excluded.timezone,
            app_version = excluded.app_version,
            tags = excluded.tags,
            authorized_at = excluded.authorized_at,
            changed_by = excluded.changed_by,
            created_at = CASE WHEN device.withdrawn THEN excluded.created_at ELSE device.created_at END,
            updated_at = excluded.updated_at,
            withdrawn = excluded.withdrawn,
            withdrawal_cause = CASE WHEN excluded.withdrawn THEN 'token_moved' END,
            revision = device.revision + 1,
            attempts = 0,
            next_attempt_at = now(),
            failures = 0,
            last_failure_at = NULL
        WHERE device.updated_at < excluded.updated_at
        """

    let registration: DeviceRegistration
    let registeredAt: Date
    /// Whether a user who has left the app registers nothing.
    let hasKakaoUserIDs: Bool
    /// The setting `channels.tag`: see ``ChannelTag``.
    var channelTag: String?

    var parameters: [PostgresValue] {
        registration.key.parameters + [
            .text(registration.pushToken),
            .text(registration.locale),
            .text(registration.timezone),
            .text(registration.appVersion),
            .texts(registration.tags),
            .timestamp(registeredAt),
            .float64(registration.authorizedAt?.seconds(to: .now)),
            .text(registration.keyName),
            .bool(hasKakaoUserIDs),
            .text(channelTag),
        ]
    }
}

/// Withdraws a device again whose withdrawal PostgreSQL has lost, with its time. An unknown one is stored as withdrawn: Kakao may know
/// it.
struct RestoreWithdrawal: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO devices AS device (user_id, device_id, push_type, push_token, withdrawn, created_at, updated_at)
        SELECT $1, $2, $3, $4, true, $5, $5
        WHERE NOT device_change_is_stored($1, $2, $3, $5)
        ON CONFLICT (user_id, device_id, push_type) DO UPDATE
        SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
                = (SELECT * FROM withdrawal(device, 'deregistered', excluded.updated_at))
        WHERE device.updated_at < excluded.updated_at
        """

    let change: DeviceChange

    var parameters: [PostgresValue] {
        change.key.parameters + [.text(change.pushToken), .timestamp(change.changedAt)]
    }
}

/// Finds the users whose departure is not stored.
struct FindLostDepartures: PostgresStatement {
    static let sql: SQL = """
        SELECT user_id
        FROM unnest($1::bigint[], $2::timestamptz[]) AS given (user_id, left_at)
        WHERE NOT device_change_is_stored(user_id, '', '', left_at)
        ORDER BY user_id
        """

    let departures: [Int64: Date]

    var parameters: [PostgresValue] {
        let departures = Array(departures)
        return [.int64s(departures.map(\.key)), .timestamps(departures.map(\.value))]
    }

    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}

/// Withdraws the devices of a user again whose departure PostgreSQL has lost.
struct RestoreDeparture: PostgresStatement {
    static let sql: SQL = """
        SELECT withdraw_departed_devices($1, $2)
        """

    let userID: Int64
    let leftAt: Date

    var parameters: [PostgresValue] { [.int64(userID), .timestamp(leftAt)] }
    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}

/// Deletes the records of a user's withdrawals. That the user is erased is recorded in `erased_users`.
struct DeleteFormerDevices: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM former_devices
        WHERE user_id = $1
        """

    let userID: Int64

    var parameters: [PostgresValue] { [.int64(userID)] }
}

/// Deletes up to `limit` records of withdrawals of more than a day ago. Skips rows that another server is deleting.
struct DeleteOldFormerDevices: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM former_devices
        WHERE ctid = ANY (
            ARRAY(
                SELECT ctid
                FROM former_devices
                WHERE withdrawn_at < now() - interval '1 day'
                LIMIT $1
                FOR UPDATE SKIP LOCKED
            )
        )
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }
}
