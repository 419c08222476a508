import Endpoints
import FoundationEssentials
import Postgres

// An app registers at each start, nearly always with values that Kakao has already. The call to Kakao then only renews
// the token. The revision and all indexed columns stay unchanged, and no device is displaced, since Kakao has confirmed
// the token for this one. That leaves two plain updates, one before the call and one after it. The updates of many
// registrations share a statement, because a commit costs as much as ten rows. Each looks its devices up in the order of their
// keys, and so locks them in this order.
extension DeviceStore {
    /// Stores a registration of a token that Kakao has confirmed for this device, and leases the device.
    ///
    /// - Returns: The device to call Kakao about; none while another request calls Kakao about the same registration. `nil`, with nothing
    ///   stored, for any other registration.
    func registerAgain(_ registration: DeviceRegistration) async throws -> [PendingDevice]? {
        guard let repetition = try await repetitions.submit(registration) else { return nil }
        guard repetition.isOurs else { return [] }
        return [
            PendingDevice(
                key: registration.key,
                pushToken: registration.pushToken,
                isWithdrawn: false,
                revision: repetition.revision,
                lease: repetition.lease,
                isRepetition: true
            )
        ]
    }
}

/// Updates and leases devices that repeat a registration, before the call to Kakao.
///
/// `(SELECT $1)` keeps the plan, as in ``RegisterDevices``.
struct RepeatRegistrations: CoalescedStatement {
    typealias Item = DeviceRegistration

    /// A device after the update.
    struct Repetition: Sendable {
        let revision: Int64
        let lease: UUID
        /// Whether the update took the lease.
        let isOurs: Bool
    }

    static let sql: SQL = """
        UPDATE devices AS device
        SET locale = given.locale,
            timezone = given.timezone,
            app_version = given.app_version,
            tags = \(ChannelTag.tags("given.tags::text[]", of: "given.user_id", "$13")),
            updated_at = now(),
            authorized_at = CASE
                WHEN age IS NOT NULL THEN GREATEST(device.authorized_at, now() - make_interval(secs => age))
            END,
            changed_by = given.changed_by,
            failures = 0,
            last_failure_at = NULL,
            lease = CASE WHEN device.lease_ends_at > now() THEN device.lease ELSE $11 END,
            lease_ends_at = CASE
                WHEN device.lease_ends_at > now() THEN device.lease_ends_at
                ELSE now() + make_interval(secs => $12)
            END
        FROM (
            SELECT *
            FROM unnest(
                (SELECT $1::bigint[]), $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                $9::float8[], $10::text[]
            ) WITH ORDINALITY AS item (
                user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, age, changed_by, place
            )
            ORDER BY user_id, device_id, push_type
        ) AS given
        WHERE (device.user_id, device.device_id, device.push_type) = (given.user_id, given.device_id, given.push_type)
            AND device.push_token = given.push_token
            AND device.kakao_revision = device.revision
            AND NOT device.withdrawn
            AND COALESCE(device.expires_at > now(), true)
        RETURNING given.place, device.revision, device.lease, device.lease = $11
        """

    let registrations: [DeviceRegistration]
    /// The setting `channels.tag`: see ``ChannelTag``.
    var channelTag: String?

    var parameters: [PostgresValue] {
        DeviceRegistration.columns(registrations) + [
            DeviceRegistration.ages(registrations),
            .texts(registrations.map(\.keyName)),
            .uuid(.v7()),
            .float64(DeviceStore.leaseDuration.inSeconds),
            .text(channelTag),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> (index: Int, repetition: Repetition) {
        try row.decode { column in
            let index = try Int(column.next(Int64.self)) - 1
            return try (index, Repetition(revision: column.next(), lease: column.next(), isOurs: column.next()))
        }
    }

    /// Returns the device of each registration after the update; `nil` for a registration that updated no device.
    static func outputs(_ rows: PostgresRows, count: Int) throws -> [Repetition?] {
        var outputs = [Repetition?](repeating: nil, count: count)
        for row in rows {
            let (index, repetition) = try decode(row)
            if outputs.indices.contains(index) { outputs[index] = repetition }
        }
        return outputs
    }
}

/// Confirms devices that repeated a registration, after the call to Kakao.
///
/// A new renewal time within a day of the stored one is not stored, so that no index has to follow it.
struct ConfirmRepetitions: CoalescedStatement {
    typealias Item = DeviceConfirmation

    static let sql: SQL = """
        UPDATE devices AS device
        SET expires_at = given.expires_at,
            renew_at = CASE
                WHEN device.kakao_revision < device.revision
                    OR given.renew_at BETWEEN device.renew_at - interval '1 day' AND device.renew_at + interval '1 day'
                    THEN device.renew_at
                ELSE given.renew_at
            END,
            lease = NULL,
            lease_ends_at = NULL
        FROM (
            SELECT *
            FROM unnest(
                (SELECT $1::bigint[]), $2::text[], $3::text[], $4::uuid[], $5::timestamptz[], $6::timestamptz[]
            ) WITH ORDINALITY AS item (user_id, device_id, push_type, lease, expires_at, renew_at, place)
            ORDER BY user_id, device_id, push_type
        ) AS given
        WHERE (device.user_id, device.device_id, device.push_type) = (given.user_id, given.device_id, given.push_type)
            AND device.lease = given.lease
        RETURNING given.place, device.kakao_revision < device.revision
        """

    let confirmations: [DeviceConfirmation]

    var parameters: [PostgresValue] {
        [
            .int64s(confirmations.map(\.device.key.userID)),
            .texts(confirmations.map(\.device.key.deviceID)),
            .pushTypes(confirmations.map(\.device.key.pushType)),
            .uuids(confirmations.map(\.device.lease)),
            .timestamps(confirmations.map(\.expiresAt)),
            .timestamps(confirmations.map(\.renewAt)),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> (index: Int, isPending: Bool) {
        let (place, isPending) = try row.decode(Int64.self, Bool.self)
        return (Int(place) - 1, isPending)
    }

    /// Returns for each confirmation whether another change is pending. After the end of its lease there is: another server
    /// calls Kakao.
    static func outputs(_ rows: PostgresRows, count: Int) throws -> [Bool] {
        var outputs = [Bool](repeating: true, count: count)
        for row in rows {
            let (index, isPending) = try decode(row)
            if outputs.indices.contains(index) { outputs[index] = isPending }
        }
        return outputs
    }
}
