internal import FoundationEssentials
internal import Postgres

/// What nearly every start of an app comes to: it registers what Kakao has.
///
/// There is nothing then that Kakao must hear of, the call only begins the token's time anew. So the revision stays, and with it every
/// column that an index knows; and nobody is displaced, for who has a token at Kakao has had it confirmed. That leaves two plain updates,
/// one before the call and one after it, of which those of many registrations are one statement: a commit costs as much as ten rows.
extension DeviceStore {
    /// Either update.
    enum Repetition: Sendable {
        case asked(DeviceRegistration)
        case answered(Confirmation)

        fileprivate var registration: DeviceRegistration {
            switch self {
            case .asked(let registration): registration
            case .answered(let confirmation):
                DeviceRegistration(key: confirmation.device.key, pushToken: confirmation.device.pushToken)
            }
        }

        fileprivate var confirmation: Confirmation? {
            if case .answered(let confirmation) = self { confirmation } else { nil }
        }
    }

    /// A device after either.
    struct Repeated: Sendable {
        let revision: Int64
        /// Something else is asked for the device, of which Kakao has yet to hear.
        let isPending: Bool
        /// The lease that holds the device, if any, and whether it was taken by this update.
        let lease: UUID?
        let isOurs: Bool
    }

    /// Notes a registration, and takes the device's lease, if it is one of a token that Kakao has already as this device's.
    ///
    /// - Returns: What the caller is to tell Kakao: nothing when somebody is telling Kakao just this at the moment. `nil` if it is no
    ///   such registration; then nothing was noted.
    func recordRepetition(_ registration: DeviceRegistration) async throws -> [PendingDevice]? {
        let noted = try await retryingDeadlocks { try await repetitions.submit(.asked(registration)) }
        guard let noted else { return nil }
        guard noted.isOurs, let lease = noted.lease else { return [] }
        let device = PendingDevice(
            key: registration.key,
            pushToken: registration.pushToken,
            isWithdrawn: false,
            revision: noted.revision,
            lease: lease,
            attempts: 0,
            isRepeat: true
        )
        return [device]
    }

    /// Kakao has begun the time of a token anew that it had already.
    ///
    /// - Parameters:
    ///   - expiresAt: When Kakao drops the token; `nil` for never.
    ///   - renewAt: When it is registered again before that.
    /// - Returns: Whether something else was asked for the device meanwhile, which Kakao has yet to hear.
    func extend(_ device: PendingDevice, expiresAt: Date?, renewAt: Date?) async throws -> Bool {
        let confirmation = Confirmation(device: device, expiresAt: expiresAt, renewAt: renewAt)
        let extended = try await retryingDeadlocks { try await repetitions.submit(.answered(confirmation)) }
        // If it was held under a lease that had ended, its new holder tells Kakao.
        return extended?.isPending ?? true
    }

    /// Whoever holds the lease of a settled device is telling Kakao the same as is asked for again.
    ///
    /// A renewal within a day of the one that is due is as good, and no index has to follow it.
    static let repeatStatement = """
        UPDATE devices AS device
        SET locale = CASE WHEN is_answered THEN device.locale ELSE given.locale END,
            timezone = CASE WHEN is_answered THEN device.timezone ELSE given.timezone END,
            app_version = CASE WHEN is_answered THEN device.app_version ELSE given.app_version END,
            tags = CASE WHEN is_answered THEN device.tags ELSE given.tags::text[] END,
            updated_at = CASE WHEN is_answered THEN device.updated_at ELSE now() END,
            authorized_at = CASE
                WHEN is_answered THEN device.authorized_at
                WHEN age IS NOT NULL THEN GREATEST(device.authorized_at, now() - make_interval(secs => age))
            END,
            failures = CASE WHEN is_answered THEN device.failures ELSE 0 END,
            last_failure_at = CASE WHEN is_answered THEN device.last_failure_at END,
            expires_at = CASE WHEN is_answered THEN given.expires_at ELSE device.expires_at END,
            renew_at = CASE
                WHEN NOT is_answered
                    OR device.kakao_revision < device.revision
                    OR given.renew_at BETWEEN device.renew_at - interval '1 day' AND device.renew_at + interval '1 day'
                    THEN device.renew_at
                ELSE given.renew_at
            END,
            lease = CASE
                WHEN is_answered THEN NULL
                WHEN device.lease_ends_at > now() THEN device.lease
                ELSE given.lease
            END,
            lease_ends_at = CASE
                WHEN is_answered THEN NULL
                WHEN device.lease_ends_at > now() THEN device.lease_ends_at
                ELSE now() + make_interval(secs => $14)
            END
        FROM unnest(
            $1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::boolean[],
            $10::uuid[], $11::timestamptz[], $12::timestamptz[], $13::integer[], $15::float8[]
        ) AS given (
            user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, is_answered, lease, expires_at,
            renew_at, place, age
        )
        WHERE (device.user_id, device.device_id, device.push_type) = (given.user_id, given.device_id, given.push_type)
            AND CASE
                WHEN is_answered THEN device.lease = given.lease
                ELSE device.push_token = given.push_token
                    AND device.kakao_revision = device.revision
                    AND NOT device.withdrawn
                    AND COALESCE(device.expires_at > now(), true)
            END
        RETURNING given.place, device.revision, device.kakao_revision < device.revision, device.lease,
            COALESCE(device.lease = given.lease, false)
        """

    static func repeatParameters(_ items: [Repetition]) -> [PostgresValue] {
        let lease = UUID.v7()
        var registrations = items.map(\.registration)
        var confirmations = items.map(\.confirmation)
        // Rows are locked in the order of their key, so that two statements never wait for each other in a circle. A row is updated once by
        // a statement: that is the answer.
        let places = items.indices.sorted { place, other in
            let (key, otherKey) = (registrations[place].key, registrations[other].key)
            return key == otherKey ? confirmations[place] != nil && confirmations[other] == nil : key < otherKey
        }
        registrations = places.map { registrations[$0] }
        confirmations = places.map { confirmations[$0] }
        return arrays(registrations) + [
            .bools(confirmations.map { $0 != nil }),
            .uuids(confirmations.map { $0?.device.lease ?? lease }),
            .timestamps(confirmations.map { $0?.expiresAt }),
            .timestamps(confirmations.map { $0?.renewAt }),
            .int32s(places.map { Int32($0) }),
            .float64(Double(leaseSeconds)),
            ages(registrations),
        ]
    }

    static func decodeRepeated(_ rows: PostgresRows, _ count: Int) throws -> [Repeated?] {
        var results = [Repeated?](repeating: nil, count: count)
        for row in rows {
            let (place, revision, isPending, lease, isOurs) =
                try row.decode(Int32.self, Int64.self, Bool.self, UUID?.self, Bool.self)
            guard results.indices.contains(Int(place)) else { continue }
            results[Int(place)] = Repeated(
                revision: revision,
                isPending: isPending,
                lease: lease,
                isOurs: isOurs
            )
        }
        return results
    }
}
