import Endpoints
import FoundationEssentials
import KakaoAPI
import Postgres

// An app registers at each start, nearly always with values that Kakao has already. The call to Kakao then only renews
// the token. The revision and all indexed columns stay unchanged, and no device is displaced, since Kakao has confirmed
// the token for this one. That leaves two plain updates, one before the call and one after it. The updates of many
// registrations share a statement, because a commit costs as much as ten rows.
extension DeviceStore {
    /// Stores a registration of a token that Kakao has confirmed for this device, and leases the device.
    ///
    /// - Returns: The device to call Kakao about; none while another request calls Kakao about the same registration. `nil`, with nothing
    ///   stored, for any other registration.
    func registerAgain(_ registration: DeviceRegistration) async throws -> [PendingDevice]? {
        guard let repetition = try await repetitions.submit(.requested(registration)) else { return nil }
        guard repetition.isOurs, let lease = repetition.lease else { return [] }
        return [
            PendingDevice(
                key: registration.key,
                pushToken: registration.pushToken,
                isWithdrawn: false,
                revision: repetition.revision,
                lease: lease,
                isRepetition: true
            )
        ]
    }
}

/// Updates devices that repeat a registration, before and after the call to Kakao.
///
/// A confirmed device is leased only for such a call. A new renewal time within a day of the stored one is not stored,
/// so that no index has to follow it.
struct RepeatRegistrations: CoalescedStatement {
    /// An update of one device.
    enum Item: Sendable {
        /// The registration, before the call.
        case requested(DeviceRegistration)
        /// Kakao's confirmation, after the call.
        case confirmed(DeviceConfirmation)

        fileprivate var registration: DeviceRegistration {
            switch self {
            case .requested(let registration): registration
            case .confirmed(let confirmation):
                DeviceRegistration(key: confirmation.device.key, pushToken: confirmation.device.pushToken)
            }
        }

        fileprivate var confirmation: DeviceConfirmation? {
            if case .confirmed(let confirmation) = self { confirmation } else { nil }
        }
    }

    /// A device after the update.
    struct Repetition: Sendable {
        let revision: Int64
        /// Whether another change is pending.
        let isPending: Bool
        let lease: UUID?
        /// Whether the update took the lease.
        let isOurs: Bool
    }

    static let sql: SQL = """
        UPDATE devices AS device
        SET locale = CASE WHEN is_confirmed THEN device.locale ELSE given.locale END,
            timezone = CASE WHEN is_confirmed THEN device.timezone ELSE given.timezone END,
            app_version = CASE WHEN is_confirmed THEN device.app_version ELSE given.app_version END,
            tags = CASE WHEN is_confirmed THEN device.tags ELSE given.tags::text[] END,
            updated_at = CASE WHEN is_confirmed THEN device.updated_at ELSE now() END,
            authorized_at = CASE
                WHEN is_confirmed THEN device.authorized_at
                WHEN age IS NOT NULL THEN GREATEST(device.authorized_at, now() - make_interval(secs => age))
            END,
            changed_by = CASE WHEN is_confirmed THEN device.changed_by ELSE given.changed_by END,
            failures = CASE WHEN is_confirmed THEN device.failures ELSE 0 END,
            last_failure_at = CASE WHEN is_confirmed THEN device.last_failure_at END,
            expires_at = CASE WHEN is_confirmed THEN given.expires_at ELSE device.expires_at END,
            renew_at = CASE
                WHEN NOT is_confirmed
                    OR device.kakao_revision < device.revision
                    OR given.renew_at BETWEEN device.renew_at - interval '1 day' AND device.renew_at + interval '1 day'
                    THEN device.renew_at
                ELSE given.renew_at
            END,
            lease = CASE
                WHEN is_confirmed THEN NULL
                WHEN device.lease_ends_at > now() THEN device.lease
                ELSE given.lease
            END,
            lease_ends_at = CASE
                WHEN is_confirmed THEN NULL
                WHEN device.lease_ends_at > now() THEN device.lease_ends_at
                ELSE now() + make_interval(secs => $14)
            END
        FROM unnest(
            $1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::boolean[],
            $10::uuid[], $11::timestamptz[], $12::timestamptz[], $13::integer[], $15::float8[],
            $16::text[]
        ) AS given (
            user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, is_confirmed, lease, expires_at,
            renew_at, place, age, changed_by
        )
        WHERE (device.user_id, device.device_id, device.push_type) = (given.user_id, given.device_id, given.push_type)
            AND CASE
                WHEN is_confirmed THEN device.lease = given.lease
                ELSE device.push_token = given.push_token
                    AND device.kakao_revision = device.revision
                    AND NOT device.withdrawn
                    AND COALESCE(device.expires_at > now(), true)
            END
        RETURNING given.place, device.revision, device.kakao_revision < device.revision, device.lease,
            COALESCE(device.lease = given.lease, false)
        """

    let items: [Item]

    var parameters: [PostgresValue] {
        let lease = UUID.v7()
        var registrations = items.map(\.registration)
        var confirmations = items.map(\.confirmation)
        // Rows are locked in the order of their keys, so that two statements do not deadlock. A statement updates a row
        // only once: the confirmation comes first.
        let places = items.indices.sorted { place, other in
            let (key, otherKey) = (registrations[place].key, registrations[other].key)
            return key == otherKey ? confirmations[place] != nil && confirmations[other] == nil : key < otherKey
        }
        registrations = places.map { registrations[$0] }
        confirmations = places.map { confirmations[$0] }
        return DeviceRegistration.columns(registrations) + [
            .bools(confirmations.map { $0 != nil }),
            .uuids(confirmations.map { $0?.device.lease ?? lease }),
            .timestamps(confirmations.map { $0?.expiresAt }),
            .timestamps(confirmations.map { $0?.renewAt }),
            .int32s(places.map { Int32($0) }),
            .float64(DeviceStore.leaseDuration.inSeconds),
            DeviceRegistration.ages(registrations),
            .texts(registrations.map(\.keyName)),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> (index: Int, repetition: Repetition) {
        let (place, revision, isPending, lease, isOurs) = try row.decode(
            Int32.self,
            Int64.self,
            Bool.self,
            UUID?.self,
            Bool.self
        )
        return (Int(place), Repetition(revision: revision, isPending: isPending, lease: lease, isOurs: isOurs))
    }

    /// Returns the device of each item after the update; `nil` for an item that updated no device.
    static func outputs(_ rows: PostgresRows, count: Int) throws -> [Repetition?] {
        var outputs = [Repetition?](repeating: nil, count: count)
        for row in rows {
            let (index, repetition) = try decode(row)
            if outputs.indices.contains(index) { outputs[index] = repetition }
        }
        return outputs
    }
}
