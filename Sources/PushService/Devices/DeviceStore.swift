internal import EventLoop
internal import FoundationEssentials
internal import HTTPServer
internal import KakaoAPI
internal import Postgres

/// The devices in PostgreSQL.
///
/// A change that an app asks for raises the device's revision; once Kakao has confirmed it, `kakao_revision` follows. In between the
/// row is unsettled, and whoever holds its lease tells Kakao. So nothing is lost in a restart, one call about a device follows
/// another, and the last change wins.
final class DeviceStore: Sendable {
    /// How long a lease lasts: longer than a call to Kakao may take, shorter than anybody wants to wait for a dead server.
    static let leaseSeconds: Int32 = 20

    let pool: PostgresPool
    private let registrations: StatementCoalescer<DeviceRegistration, [PendingDevice]?>
    let confirmations: StatementCoalescer<Confirmation, Bool>
    let repetitions: StatementCoalescer<Repetition, Repeated?>
    let lookUps: StatementCoalescer<Int64, TokenPage>

    /// What Kakao has confirmed of a device.
    struct Confirmation: Sendable {
        let device: PendingDevice
        let expiresAt: Date?
        let renewAt: Date?
    }

    init(pool: PostgresPool) {
        self.pool = pool
        registrations = StatementCoalescer(
            pool: pool,
            statement: Self.registerStatement,
            parameters: Self.registerParameters,
            decode: Self.decodeRegistered
        )
        confirmations = StatementCoalescer(
            pool: pool,
            statement: Self.confirmStatement,
            parameters: Self.confirmParameters,
            decode: Self.decodeConfirmed
        )
        repetitions = StatementCoalescer(
            pool: pool,
            statement: Self.repeatStatement,
            parameters: Self.repeatParameters,
            decode: Self.decodeRepeated
        )
        lookUps = StatementCoalescer(
            pool: pool,
            access: .read,
            maximumItems: 64,
            concurrency: 2,
            statement: Self.lookUpStatement,
            parameters: Self.lookUpParameters,
            decode: Self.decodeLookUps
        )
    }

    // MARK: Registration

    /// Stores a registration. Whoever else held the same token has it withdrawn: a phone belongs to one user.
    ///
    /// A withdrawal of the token that Kakao has yet to hear of, from whenever it is, comes with it: the registration must not
    /// overtake it.
    ///
    /// A registration that was authorized before its user left the app is not stored, however long it took.
    ///
    /// - Returns: What the caller is to tell Kakao, in this order; empty when somebody else is telling Kakao about this device at the
    ///   moment, and will go on with this.
    /// - Throws: ``Problem`` 503 when the user has left the app since the token was verified: it is to be verified again.
    func register(_ registration: DeviceRegistration) async throws -> [PendingDevice] {
        if let unsettled = try await recordRepetition(registration) { return unsettled }
        let unsettled = try await retryingDeadlocks { try await registrations.submit(registration) }
        guard let unsettled else { throw Problem.identityUnavailable(retrySeconds: 1) }
        return unsettled
    }

    /// What a withdrawal sets in a row `device`: under a lease that nobody holds yet, or under the one that somebody holds, who will see
    /// that there is more to tell Kakao.
    static func withdrawal(lease: String, seconds: String) -> String {
        """
        withdrawn = true,
        revision = device.revision + CASE WHEN device.withdrawn THEN 0 ELSE 1 END,
        updated_at = now(),
        attempts = 0,
        next_attempt_at = now(),
        lease = CASE WHEN device.lease_ends_at > now() THEN device.lease ELSE \(lease) END,
        lease_ends_at = CASE
            WHEN device.lease_ends_at > now() THEN device.lease_ends_at
            ELSE now() + make_interval(secs => \(seconds))
        END
        """
    }

    /// Rows are locked in the order of their key, so that two of these statements never wait for each other in a circle. Of two
    /// registrations of one device in the same statement the later one counts, and so of two of one token.
    private static let registerStatement = """
        WITH given AS (
            SELECT *
            FROM unnest(
                $1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::float8[]
            ) WITH ORDINALITY AS item (
                user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, age, place
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
        displaced AS (
            UPDATE devices AS device
            SET \(withdrawal(lease: "$10", seconds: "$11"))
            FROM admitted
            WHERE admitted.holds_token
                AND device.push_token = admitted.push_token
                AND NOT EXISTS (
                    SELECT 1
                    FROM admitted AS own
                    WHERE (own.user_id, own.device_id, own.push_type)
                        = (device.user_id, device.device_id, device.push_type)
                )
            RETURNING admitted.place, device.user_id, device.device_id, device.push_type, device.push_token, true AS withdrawn,
                device.revision, device.lease, device.lease = $10 AS is_ours
        ),
        stored AS (
            INSERT INTO devices AS device (
                user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, withdrawn, lease, lease_ends_at,
                authorized_at
            )
            SELECT user_id, device_id, push_type, push_token, locale, timezone, app_version,
                tags::text[], NOT holds_token, $10, now() + make_interval(secs => $11), authorized_at
            FROM admitted
            WHERE is_last
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
                created_at = CASE WHEN device.withdrawn THEN now() ELSE device.created_at END,
                updated_at = now(),
                withdrawn = excluded.withdrawn,
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
        SELECT place, user_id, device_id, push_type, push_token, withdrawn, revision, lease, is_ours
        FROM displaced
        UNION ALL
        SELECT admitted.place, stored.user_id, stored.device_id, stored.push_type, stored.push_token, stored.withdrawn,
            stored.revision, stored.lease, stored.lease = $10
        FROM stored
        JOIN admitted USING (user_id, device_id, push_type)
        WHERE admitted.is_last
        UNION ALL
        SELECT place, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM given
        WHERE NOT EXISTS (SELECT 1 FROM admitted WHERE admitted.place = given.place)
        """

    private static func registerParameters(_ items: [DeviceRegistration]) -> [PostgresValue] {
        arrays(items) + [ages(items), .uuid(.v7()), .float64(Double(leaseSeconds))]
    }

    /// The seconds since each was authorized, since only the database's clock is the same for all servers; NULL for operators'.
    static func ages(_ items: [DeviceRegistration]) -> PostgresValue {
        let now = MonotonicTime.now
        return .float64s(items.map { $0.authorizedAt?.seconds(to: now) })
    }

    /// What apps say of their devices, an array for each column.
    static func arrays(_ items: [DeviceRegistration]) -> [PostgresValue] {
        [
            .int64s(items.map(\.key.userID)),
            .texts(items.map(\.key.deviceID)),
            .texts(items.map(\.key.pushType.storedName)),
            .texts(items.map(\.pushToken)),
            .texts(items.map(\.locale)),
            .texts(items.map(\.timezone)),
            .texts(items.map(\.appVersion)),
            .textArrayLiterals(items.map(\.tags)),
        ]
    }

    private static func decodeRegistered(_ rows: PostgresRows, _ count: Int) throws -> [[PendingDevice]?] {
        var results = [[PendingDevice]?](repeating: [], count: count)
        /// Who tells Kakao of the withdrawals of a token: the place of one of these registrations, or -1 for somebody else.
        var withdrawals: [String: Set<Int>] = [:]
        for row in rows {
            let (place, userID, deviceID, pushType, pushToken, isWithdrawn, revision, lease, isOurs) =
                try row.decode(
                    Int64.self,
                    Int64?.self,
                    String?.self,
                    String?.self,
                    String?.self,
                    Bool?.self,
                    Int64?.self,
                    UUID?.self,
                    Bool?.self
                )
            let index = Int(place) - 1
            guard results.indices.contains(index) else { continue }
            guard let userID, let deviceID, let pushType, let pushToken, let isWithdrawn, let revision, let lease,
                let isOurs
            else {
                // The user has left.
                results[index] = nil
                continue
            }
            guard let pushType = PushType(storedName: pushType) else { continue }
            if isWithdrawn { withdrawals[pushToken, default: []].insert(isOurs ? index : -1) }
            guard isOurs else { continue }
            let device = PendingDevice(
                key: DeviceKey(userID: userID, deviceID: deviceID, pushType: pushType),
                pushToken: pushToken,
                isWithdrawn: isWithdrawn,
                revision: revision,
                lease: lease,
                attempts: 0
            )
            results[index]?.append(device)
        }
        return results.enumerated().map { index, devices in
            // The row that was displaced comes before the registration that displaced it.
            devices?.sorted { $0.isWithdrawn && !$1.isWithdrawn }.map { device in
                var device = device
                let others = withdrawals[device.pushToken, default: []].subtracting([index])
                device.mustWait = !device.isWithdrawn && !others.isEmpty
                return device
            }
        }
    }

    // MARK: Withdrawal

    /// Takes a device back. One that is unknown here is noted all the same: Kakao may know it.
    ///
    /// - Returns: What the caller is to tell Kakao; `nil` when somebody else is at it.
    func withdraw(_ key: DeviceKey) async throws -> PendingDevice? {
        let lease = UUID.v7()
        let rows = try await pool.write(
            """
            INSERT INTO devices AS device (
                user_id, device_id, push_type, push_token, withdrawn, lease, lease_ends_at
            )
            VALUES ($1, $2, $3, '', true, $4, now() + make_interval(secs => $5))
            ON CONFLICT (user_id, device_id, push_type) DO UPDATE
            SET withdrawn = true,
                revision = device.revision + 1,
                updated_at = now(),
                attempts = 0,
                next_attempt_at = now(),
                lease = CASE WHEN device.lease_ends_at > now() THEN device.lease ELSE excluded.lease END,
                lease_ends_at = CASE WHEN device.lease_ends_at > now() THEN device.lease_ends_at ELSE excluded.lease_ends_at END
            RETURNING push_token, revision, lease
            """,
            [
                .int64(key.userID), .text(key.deviceID), .text(key.pushType.storedName), .uuid(lease),
                .float64(Double(Self.leaseSeconds)),
            ]
        )
        guard let row = rows.first else { return nil }
        let (pushToken, revision, holder) = try row.decode(String.self, Int64.self, UUID.self)
        guard holder == lease else { return nil }
        return PendingDevice(
            key: key,
            pushToken: pushToken,
            isWithdrawn: true,
            revision: revision,
            lease: lease,
            attempts: 0
        )
    }

    /// Counts a failure of a token, and withdraws the device when there are `limit` of them.
    ///
    /// A report that was counted before, in whatever order they are stored, or that is older than the registration has no effect.
    ///
    /// - Returns: Whether the device was withdrawn by it.
    func recordFailure(_ failure: TokenFailure, pruneAfter limit: Int) async throws -> Bool {
        let rows = try await pool.write(
            """
            UPDATE devices
            SET failures = failures + 1,
                last_failure_at = GREATEST(last_failure_at, $3),
                failure_dates = CASE WHEN failures = 0 THEN ARRAY[$3] ELSE failure_dates || $3 END,
                withdrawn = failures + 1 >= $4,
                revision = CASE WHEN failures + 1 >= $4 THEN revision + 1 ELSE revision END,
                next_attempt_at = CASE WHEN failures + 1 >= $4 THEN now() ELSE next_attempt_at END
            WHERE user_id = $1
                AND push_token = $2
                AND NOT withdrawn
                AND updated_at <= $3
                AND (failures = 0 OR last_failure_at IS DISTINCT FROM $3 AND $3 <> ALL (COALESCE(failure_dates, '{}')))
            RETURNING withdrawn
            """,
            [
                .int64(failure.userID), .text(failure.pushToken), .timestamp(failure.date),
                .int32(Int32(clamping: limit)),
            ]
        )
        return try rows.contains { try $0.decode(Bool.self) }
    }
}
