import Endpoints
import FoundationEssentials
import HTTPServer
import Identity
import KakaoAPI
import Postgres

extension DeviceStore {
    /// Stores a registration, and withdraws other devices with the same token, because a phone belongs to one user.
    ///
    /// - Throws: ``Problem`` 503 if the user has unlinked the app since the access token was verified.
    ///   ``PostgresError``.
    func register(_ registration: DeviceRegistration) async throws -> StoredRegistration {
        guard let stored = try await registrations.submit(registration) else {
            throw Problem.identityUnavailable(retrySeconds: 1)
        }
        return stored
    }
}

/// A registration after its commit.
struct StoredRegistration: Sendable {
    /// The changes of the device, and of those that lose their token to it.
    fileprivate(set) var changes: [DeviceChange] = []
    /// The devices to call Kakao about, in this order. A pending withdrawal of the token comes before its registration. Empty
    /// if another request or server is calling Kakao about the device, and will continue with this registration.
    fileprivate(set) var pending: [PendingDevice] = []
}

/// Registers devices and displaces other devices with the same tokens.
///
/// The stored rows, of the registered devices and of all with their tokens, are locked first, in the order of their keys as by every
/// statement that changes devices, and their values after that count. New rows follow in the same order. A deadlock is possible
/// only with a device that another server stores after this statement has begun; PostgreSQL ends it, and the statement
/// is repeated.
///
/// The planner does not see the number of registrations in `(SELECT $1)`. It would otherwise plan every statement with a single
/// one again, which costs more than the statement.
///
/// If a statement holds two registrations of one device or of one token, the later one counts. A user who has unlinked the app
/// since the registration was authorized registers nothing.
struct RegisterDevices: CoalescedStatement {
    typealias Item = DeviceRegistration

    static let sql: SQL = """
        WITH given AS (
            SELECT *
            FROM unnest(
                (SELECT $1::bigint[]), $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                $9::float8[], $12::text[]
            ) WITH ORDINALITY AS item (
                user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, age, changed_by, place
            )
        ),
        admitted AS MATERIALIZED (
            SELECT *, now() - make_interval(secs => age) AS authorized_at,
                row_number() OVER (PARTITION BY user_id, device_id, push_type ORDER BY place DESC) = 1 AS is_last,
                row_number() OVER (PARTITION BY push_token ORDER BY place DESC) = 1 AS holds_token
            FROM given
            WHERE age IS NULL
                OR NOT user_has_left(user_id, now() - make_interval(secs => age))
        ),
        -- Materialized: after a wait for a lock, PostgreSQL evaluates the join below again, and finds no row of a subquery that it has
        -- merged into the join with a scan of an index.
        concerned AS MATERIALIZED (
            SELECT user_id, device_id, push_type
            FROM admitted
            UNION ALL
            SELECT other.user_id, other.device_id, other.push_type
            FROM admitted
            JOIN devices AS other USING (push_token)
        ),
        held AS (
            SELECT device.user_id, device.device_id, device.push_type, device.push_token
            FROM devices AS device
            JOIN concerned USING (user_id, device_id, push_type)
            ORDER BY device.user_id, device.device_id, device.push_type
            FOR UPDATE OF device
        ),
        displaced AS (
            UPDATE devices AS device
            SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
                    = (SELECT * FROM withdrawal(device, 'token_moved')),
                lease = CASE WHEN device.lease_ends_at > now() THEN device.lease ELSE $10 END,
                lease_ends_at = CASE
                    WHEN device.lease_ends_at > now() THEN device.lease_ends_at
                    ELSE now() + make_interval(secs => $11)
                END
            FROM held
            JOIN admitted USING (push_token)
            WHERE (device.user_id, device.device_id, device.push_type) = (held.user_id, held.device_id, held.push_type)
                AND admitted.holds_token
                AND NOT EXISTS (
                    SELECT 1
                    FROM admitted AS own
                    WHERE (own.user_id, own.device_id, own.push_type) = (held.user_id, held.device_id, held.push_type)
                )
            RETURNING admitted.place, device.user_id, device.device_id, device.push_type, device.push_token, true AS withdrawn,
                device.revision, device.lease, device.lease = $10 AS is_ours
        ),
        stored AS (
            INSERT INTO devices AS device (
                user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, withdrawn, lease, lease_ends_at,
                authorized_at, changed_by
            )
            SELECT user_id, device_id, push_type, push_token, locale, timezone, app_version,
                \(ChannelTag.tags("tags::text[]", of: "user_id", "$13")), NOT holds_token, $10, now() + make_interval(secs => $11), authorized_at, changed_by
            FROM admitted
            WHERE is_last
                -- Nothing is inserted before all rows are locked.
                AND (SELECT count(*) FROM held) IS NOT NULL
            ORDER BY user_id, device_id, push_type
            ON CONFLICT (user_id, device_id, push_type) DO UPDATE
            SET push_token = excluded.push_token,
                locale = excluded.locale,
                timezone = excluded.timezone,
                app_version = excluded.app_version,
                tags = excluded.tags,
                authorized_at = CASE
                    WHEN excluded.authorized_at IS NOT NULL THEN GREATEST(device.authorized_at, excluded.authorized_at)
                END,
                changed_by = excluded.changed_by,
                created_at = CASE WHEN device.withdrawn THEN now() ELSE device.created_at END,
                updated_at = now(),
                withdrawn = excluded.withdrawn,
                withdrawal_cause = CASE WHEN excluded.withdrawn THEN 'token_moved' END,
                revision = device.revision + 1,
                attempts = 0,
                next_attempt_at = now(),
                failures = 0,
                last_failure_at = NULL,
                lease = CASE WHEN device.lease_ends_at > now() THEN device.lease ELSE excluded.lease END,
                lease_ends_at = CASE WHEN device.lease_ends_at > now() THEN device.lease_ends_at ELSE excluded.lease_ends_at END
            RETURNING device.user_id, device.device_id, device.push_type, device.push_token, device.withdrawn, device.revision,
                device.lease
        )
        SELECT place, user_id, device_id, push_type, push_token, withdrawn, revision, lease, is_ours, now()
        FROM displaced
        UNION ALL
        SELECT admitted.place, stored.user_id, stored.device_id, stored.push_type, stored.push_token, stored.withdrawn,
            stored.revision, stored.lease, stored.lease = $10, now()
        FROM stored
        JOIN admitted USING (user_id, device_id, push_type)
        WHERE admitted.is_last
        UNION ALL
        SELECT place, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM given
        WHERE NOT EXISTS (SELECT 1 FROM admitted WHERE admitted.place = given.place)
        """

    let registrations: [DeviceRegistration]
    /// The setting `channels.tag`: see ``ChannelTag``.
    var channelTag: String?

    var parameters: [PostgresValue] {
        DeviceRegistration.columns(registrations) + [
            DeviceRegistration.ages(registrations), .uuid(.v7()), .float64(DeviceStore.leaseDuration.inSeconds),
            .texts(registrations.map(\.keyName)), .text(channelTag),
        ]
    }

    /// Decodes a device and its place among the registrations, from 1. All columns but the place are NULL for a user
    /// who has unlinked the app.
    static func decode(
        _ row: PostgresRow
    ) throws -> (Int64, Int64?, String?, PushType?, String?, Bool?, Int64?, UUID?, Bool?, Date?) {
        try row.decode(
            Int64.self,
            Int64?.self,
            String?.self,
            PushType?.self,
            String?.self,
            Bool?.self,
            Int64?.self,
            UUID?.self,
            Bool?.self,
            Date?.self
        )
    }

    /// Returns what each registration has changed; `nil` for a user who has unlinked the app.
    static func outputs(_ rows: PostgresRows, count: Int) throws -> [StoredRegistration?] {
        var outputs = [StoredRegistration?](repeating: StoredRegistration(), count: count)
        // The registrations that call Kakao about the withdrawals of a token, by index; -1 for another request or
        // server.
        var withdrawals: [String: Set<Int>] = [:]
        for row in rows {
            let (place, userID, deviceID, pushType, pushToken, isWithdrawn, revision, lease, isOurs, changedAt) =
                try decode(row)
            let index = Int(place) - 1
            guard outputs.indices.contains(index) else { continue }
            guard let userID, let deviceID, let pushType, let pushToken, let isWithdrawn, let revision, let lease,
                let isOurs, let changedAt
            else {
                outputs[index] = nil
                continue
            }
            if isWithdrawn { withdrawals[pushToken, default: []].insert(isOurs ? index : -1) }
            let key = DeviceKey(userID: userID, deviceID: deviceID, pushType: pushType)
            outputs[index]?.changes.append(
                DeviceChange(key: key, pushToken: pushToken, isWithdrawn: isWithdrawn, changedAt: changedAt)
            )
            guard isOurs else { continue }
            outputs[index]?.pending.append(
                PendingDevice(
                    key: key,
                    pushToken: pushToken,
                    isWithdrawn: isWithdrawn,
                    revision: revision,
                    lease: lease
                )
            )
        }
        for index in outputs.indices {
            outputs[index]?.pending.sort { $0.isWithdrawn && !$1.isWithdrawn }
            for place in outputs[index]?.pending.indices ?? 0..<0 {
                guard let device = outputs[index]?.pending[place], !device.isWithdrawn else { continue }
                let others = withdrawals[device.pushToken, default: []].subtracting([index])
                outputs[index]?.pending[place].mustWait = !others.isEmpty
            }
        }
        return outputs
    }
}
