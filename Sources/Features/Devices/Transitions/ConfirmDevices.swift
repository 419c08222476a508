import FoundationEssentials
import KakaoAPI
import Postgres

/// Kakao's confirmation of a device.
struct DeviceConfirmation: Sendable {
    let device: PendingDevice
    /// The time at which Kakao deletes the token; `nil` for never.
    let expiresAt: Date?
    /// The time at which the server renews the token.
    let renewAt: Date?
}

extension DeviceStore {
    /// Stores that Kakao has confirmed a device, and releases its lease. A withdrawn device is deleted.
    ///
    /// - Returns: Whether another change is pending, of this device or of one that loses its token to it.
    func confirm(_ confirmation: DeviceConfirmation) async throws -> Bool {
        confirmation.device.isRepetition
            ? try await repetitionConfirmations.submit(confirmation) : try await confirmations.submit(confirmation)
    }
}

/// Confirms devices that Kakao has registered, and deletes those that it has deregistered.
///
/// The rows are locked first, in the order of their keys. Their values after that count, not those at the start of the
/// statement, so that a concurrent change is neither lost nor left with a lease that no request holds.
///
/// Two registrations of one token whose transactions overlap do not see each other. The confirmation that begins last
/// sees both: the device that was registered last keeps the token, and the other is withdrawn. A constraint could not
/// ensure that where devices are sharded by user.
struct ConfirmDevices: CoalescedStatement {
    typealias Item = DeviceConfirmation

    static let sql: SQL = """
        WITH given AS (
            SELECT *
            FROM unnest(
                $1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::uuid[], $7::timestamptz[], $8::timestamptz[]
            ) WITH ORDINALITY AS item (
                user_id, device_id, push_type, push_token, confirmed, lease, expires_at, renew_at, place
            )
        ),
        -- Materialized: after a wait for a lock, PostgreSQL evaluates the join below again, and finds no row of a subquery that it has
        -- merged into the join with a scan of an index.
        concerned AS MATERIALIZED (
            SELECT user_id, device_id, push_type, confirmed, lease, expires_at, renew_at, place
            FROM given
            UNION ALL
            SELECT DISTINCT other.user_id, other.device_id, other.push_type, NULL::bigint, NULL::uuid, NULL::timestamptz,
                NULL::timestamptz, NULL::bigint
            FROM given
            JOIN devices AS other USING (push_token)
            WHERE given.push_token <> ''
                AND NOT other.withdrawn
                AND (other.user_id, other.device_id, other.push_type)
                    <> (given.user_id, given.device_id, given.push_type)
                AND NOT EXISTS (
                    SELECT 1
                    FROM given AS own
                    WHERE (own.user_id, own.device_id, own.push_type) = (other.user_id, other.device_id, other.push_type)
                )
        ),
        held AS (
            SELECT device.user_id, device.device_id, device.push_type, device.push_token, device.withdrawn, device.revision,
                device.updated_at, concerned.confirmed, concerned.expires_at, concerned.renew_at, concerned.place
            FROM devices AS device
            JOIN concerned USING (user_id, device_id, push_type)
            WHERE concerned.lease IS NULL
                OR device.lease = concerned.lease
            ORDER BY device.user_id, device.device_id, device.push_type
            FOR UPDATE OF device
        ),
        ranked AS (
            SELECT *,
                NOT withdrawn AND row_number() OVER (
                    PARTITION BY push_token, withdrawn
                    ORDER BY updated_at DESC, user_id DESC, device_id DESC, push_type DESC
                ) > 1 AS loses_token
            FROM held
        ),
        deregistered AS (
            DELETE FROM devices AS device
            USING ranked
            WHERE (device.user_id, device.device_id, device.push_type)
                    = (ranked.user_id, ranked.device_id, ranked.push_type)
                AND ranked.withdrawn
                AND ranked.revision = ranked.confirmed
            RETURNING ranked.place, false AS is_pending
        ),
        displaced AS (
            UPDATE devices AS device
            SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
                    = (SELECT * FROM withdrawal(device, 'token_moved', device.updated_at)),
                lease = CASE WHEN ranked.confirmed IS NULL THEN device.lease END,
                lease_ends_at = CASE WHEN ranked.confirmed IS NULL THEN device.lease_ends_at END
            FROM ranked
            WHERE (device.user_id, device.device_id, device.push_type)
                    = (ranked.user_id, ranked.device_id, ranked.push_type)
                AND ranked.loses_token
            RETURNING ranked.place, true AS is_pending
        ),
        registered AS (
            UPDATE devices AS device
            SET kakao_revision = ranked.confirmed,
                expires_at = ranked.expires_at,
                renew_at = ranked.renew_at,
                attempts = 0,
                lease = NULL,
                lease_ends_at = NULL
            FROM ranked
            WHERE (device.user_id, device.device_id, device.push_type)
                    = (ranked.user_id, ranked.device_id, ranked.push_type)
                AND ranked.confirmed IS NOT NULL
                AND NOT ranked.loses_token
                AND NOT (ranked.withdrawn AND ranked.revision = ranked.confirmed)
            RETURNING ranked.place, device.kakao_revision < device.revision AS is_pending
        )
        SELECT place, is_pending
        FROM registered
        UNION ALL
        SELECT place, is_pending
        FROM displaced
        UNION ALL
        SELECT place, is_pending
        FROM deregistered
        """

    let confirmations: [DeviceConfirmation]

    var parameters: [PostgresValue] {
        [
            .int64s(confirmations.map(\.device.key.userID)),
            .texts(confirmations.map(\.device.key.deviceID)),
            .pushTypes(confirmations.map(\.device.key.pushType)),
            // A withdrawn device displaces no other.
            .texts(confirmations.map { $0.device.isWithdrawn ? "" : $0.device.pushToken }),
            .int64s(confirmations.map(\.device.revision)),
            .uuids(confirmations.map(\.device.lease)),
            .timestamps(confirmations.map(\.expiresAt)),
            .timestamps(confirmations.map(\.renewAt)),
        ]
    }

    /// Decodes the place of a confirmation, from 1, or `nil` for another device that lost its token; and whether a
    /// change is pending.
    static func decode(_ row: PostgresRow) throws -> (place: Int64?, isPending: Bool) {
        try row.decode(Int64?.self, Bool.self)
    }

    static func outputs(_ rows: PostgresRows, count: Int) throws -> [Bool] {
        // A confirmation without a row arrived after the end of its lease: another server calls Kakao.
        var outputs = [Bool](repeating: true, count: count)
        for row in rows {
            let (place, isPending) = try decode(row)
            // Any of the confirmations may have displaced it.
            guard let place else { return [Bool](repeating: true, count: count) }
            if outputs.indices.contains(Int(place) - 1) { outputs[Int(place) - 1] = isPending }
        }
        return outputs
    }
}
